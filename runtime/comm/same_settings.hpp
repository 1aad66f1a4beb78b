// Workers that a launcher has started may have been given different command lines. None of them would notice: with
// another batch each trains a part of its own size, with another depth the next exchange of gradients never fits.
//
//   check_same_settings(rendezvous, {{"batch", "10", ""}, {"seed", "0", ""}});
//   -> "--batch: found 10 in worker 0 and 14 in worker 1, expected the same in all workers"
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

class Rendezvous;

/// By worker. Throws InputError that names the first setting that is not the same in all of them, each value and the
/// workers that have it. A setting that a worker does not name has "its default" there.
void refuse_different_settings(const std::vector<std::vector<SettingValue>>& of_workers);

/// A check that comes out the same in all workers of a rendezvous, called by all of them. If it throws an InputError,
/// it does so in every one, and none of them takes the end of another for a death. Nothing of the rendezvous is used
/// afterwards then.
void refuse_together(Rendezvous& rendezvous, const std::function<void()>& check);

/// refuse_different_settings() of the workers of a rendezvous, together.
void check_same_settings(Rendezvous& rendezvous, const std::vector<SettingValue>& own);

}  // namespace pdl
