// Any bytes as YAML: they end in a tree or in one problem, and the text of a written tree reads as
// the same tree.
#include "common/yaml/yaml.h"

#include <kj/debug.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::codec;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  talos::Problems problems;
  YamlStream stream(text, "fuzz", problems);
  KJ_ASSERT(problems.size() <= 1);
  render(problems);
  for (auto* root : stream.documents()) {
    stream.textOf(*root);
    auto written = renderYaml(*root, 4, 0);
    auto json = renderJson(*root, 0);
    talos::Problems again;
    YamlStream second(written, "again", again);
    if (written.size() > kMaxDocumentBytes) continue;
    // Aliases are written out and keys over 1024 characters have no short form: both may meet a
    // limit.
    if (again.size() > 0) continue;
    KJ_ASSERT(second.documents().size() == 1, written);
    KJ_ASSERT(renderJson(*second.documents()[0], 0) == json, written, json);
  }
  return 0;
}
