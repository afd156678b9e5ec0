// link: talosctl-views common-kube
// JSONPath templates of anybody on an object of anybody (the two with a zero byte between them):
// they end in a text or in a refusal, within their bounds.
#include <kj/debug.h>
#include <stdlib.h>

#include <algorithm>

#include "talosctl/views/json-path.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(jsonpath) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  auto zero = std::find(text.begin(), text.end(), '\0') - text.begin();
  auto path = kj::heapString(text.slice(0, zero));
  auto object = text.slice(std::min<size_t>(zero + 1, size), size);
  kj::runCatchingExceptions([&] {
    talosctl::JsonPathTemplate wanted(path);
    auto document = kube::readJson(object, "the object");
    auto once = wanted.evaluate(document);
    if (once != wanted.evaluate(document)) abort();
  });
  return 0;
}
