// link: talosctl-config
// Any patches for any documents (the two with a zero byte between them): they end in a document
// with the meaning of the patch, or in problems.
#include "talosctl/config/patch.h"

#include <kj/debug.h>

#include <algorithm>

#include "common/text/diff.h"
#include "common/yaml/yaml.h"
#include "talosctl/config/config-shape.h"

namespace {

using namespace talos;

const PatchNames kNames{.shapeOf = &talosctl::shapeOfConfig};

// A JSON Patch that replaces and does nothing else.
bool onlyReplaces(kj::StringPtr patch) {
  Problems problems;
  codec::YamlStream stream(patch, "", problems);
  for (auto* document : stream.documents()) {
    if (document->kind != codec::YamlNode::Kind::kSequence) return false;
    for (auto* operation : document->items) {
      for (auto& entry : operation->entries) {
        if (entry.key == "op" && entry.value->text != "replace") return false;
      }
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  auto zero = std::find(text.begin(), text.end(), '\0') - text.begin();
  auto document = kj::heapString(text.slice(0, zero));
  auto patch = kj::heapString(text.slice(std::min<size_t>(zero + 1, size), size));

  Problems none;
  KJ_IF_MAYBE (same, applyPatch(document, "[]", none)) {
    KJ_ASSERT(*same == document);
  }

  Problems problems;
  auto result = applyPatch(document, patch, problems, kNames);
  KJ_ASSERT((result == nullptr) == (problems.size() > 0));
  render(problems);
  KJ_IF_MAYBE (changed, result) {
    Problems found;
    codec::YamlStream stream(*changed, "result", found);
    KJ_ASSERT(found.size() == 0, *changed, render(found));
    auto difference = unifiedDiff(document, *changed, "before", "after");
    KJ_ASSERT((difference.size() == 0) == (document == *changed));
    if (!onlyReplaces(patch)) return 0;
    Problems second;
    KJ_IF_MAYBE (again, applyPatch(*changed, patch, second, kNames)) {
      KJ_ASSERT(*again == *changed, *again);
    }
  }
  return 0;
}
