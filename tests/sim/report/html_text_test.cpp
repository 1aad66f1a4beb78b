#include "sim/report/html_text.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("what means something in HTML is escaped, and what would move a cursor is written out") {
  CHECK(html_escaped("<b a=\"1\" c='2'>&\n</script>") ==
        "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\\n&lt;/script&gt;");
  CHECK(html_escaped("Gr\xc3\xb6\xc3\x9f"
                     "e \xff") ==
        "Gr\xc3\xb6\xc3\x9f"
        "e \\xff");
}

TEST_CASE("JSON in a page has nothing that ends its element") {
  CHECK(html_json({{"file", "</script><!--"}, {"n", 1.5}}) == "{\"file\":\"\\u003c/script>\\u003c!--\",\"n\":1.5}");
}

TEST_CASE("places of a page: letters, digits and dashes, each once") {
  Anchors ids;
  CHECK(ids.of("HW1.2 Q1") == "hw1-2-q1");
  CHECK(ids.of("HW1.2, Q1!") == "hw1-2-q1-2");
  CHECK(ids.of("hw1 2 q1 2") == "hw1-2-q1-2-2");
  CHECK(ids.of("2 GPUs") == "part-2-gpus");
  CHECK(ids.of("\xc3\xa9") == "part");
}
