// A config.json of Hugging Face's transformers as a model: of GPT-2 and of Llama.
//
//   {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, ...}   ->  embedding, 32 x llama_block, head
//
//   gpt2     n_embd, n_layer, n_head, n_positions, vocab_size, n_inner (null: 4 x n_embd), activation_function,
//            resid_pdrop and embd_pdrop (dropout; attn_pdrop is not modelled, a warning), tie_word_embeddings
//   llama    hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads (none: as many as heads),
//            intermediate_size, vocab_size, hidden_act, attention_bias, mlp_bias, head_dim, tie_word_embeddings
//            (attention_dropout is not modelled, a warning)
//
// Such files have dozens of other keys, which say nothing of sizes: they are not looked at. Widths, heads, layers and
// vocabulary must be there; where another key is missing, its default is that of the class (GPT2Config, LlamaConfig).
// Not here: other architectures, weights, and what is said of precision (dtype is a setting of the run).
#pragma once

#include <string>
#include <vector>

#include "sim/io/json_place.hpp"
#include "sim/model/model.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// An object with "model_type" or "architectures".
bool is_hugging_face_config(const JsonPlace& root);

/// Settings that may be said beside the file, for a message: "--sequence and --dropout-percent". Empty where it is no
/// such file, or is one that is refused.
std::string words_beside_hugging_face_config(const std::string& path);

/// `said`: of its fields `sequence` (none: 1024 of gpt2, 2048 of llama, or fewer where the model has fewer positions)
/// and `dropout_percent` (none: what the file says; without a meaning for llama), others are not looked at. Throws
/// InputError naming the file and the key: another architecture, architectures that are none of the model_type, a size
/// that is missing or out of its range, an activation, a bias or a head size that the layers here have not, sizes that
/// do not go together.
Model read_hugging_face_config(const JsonPlace& root, const TransformerSettings& said);

/// What a file that has been read asks for and is not modelled: dropout of the attention's softmax, unless the user
/// said that there is no dropout.
std::vector<std::string> warnings_of_hugging_face_config(const JsonPlace& root, const TransformerSettings& said);

}  // namespace pdl
