#include "talosctl/config/config-shape.h"

#include <capnp/schema.h>

#include "common/base/annotation.h"
#include "common/config/rules/config-check.h"
#include "rpc/config.capnp.h"

namespace talos::talosctl {
namespace {

constexpr auto kItem = "[]"_kj;

// Returns the shape of `path` among the keys of later versions, by the keys below it.
Shape laterShape(kj::StringPtr path) {
  for (auto& row : config::laterKeys()) {
    if (!row.path.startsWith(path)) continue;
    auto rest = row.path.slice(path.size());
    if (rest.startsWith(kItem)) return Shape::kList;
    if (rest.startsWith(".")) return Shape::kMapping;
  }
  return Shape::kUnknown;
}

// The value that a path leads to.
struct Found {
  bool known = true, map = false;  // in the schema; `map`: a list that is written as a mapping
  bool free = false;               // at or below a key with arbitrary content
  capnp::Type type = capnp::Schema::from<config::Config>();
  kj::String pattern;  // in the notation of the later keys
};

Found find(kj::ArrayPtr<const kj::StringPtr> path) {
  Found at{.pattern = kj::str()};
  for (auto step : path) {
    if (at.known && at.type.isList()) {  // an item, or any key of a map
      auto item = at.type.asList().getElementType();
      at.pattern = kj::str(at.pattern, at.map ? ".*"_kj : kItem);
      if (at.map) {
        auto value = item.asStruct().getFieldByName("value");
        item = value.getType();
        at.free = annotation::has(value, annotation::kRaw);
      }
      at.type = item;
      at.map = false;
      continue;
    }
    if (!at.known && laterShape(at.pattern) == Shape::kList) {
      at.pattern = kj::str(at.pattern, kItem);
      continue;
    }
    at.pattern = kj::str(at.pattern, at.pattern.size() == 0 ? "" : ".", step);
    at.known = at.known && at.type.isStruct();
    if (!at.known) continue;
    KJ_IF_MAYBE (field, annotation::fieldCalled(at.type.asStruct(), step)) {
      at.type = field->getType();
      at.map = annotation::has(*field, annotation::kMap);
    } else {
      at.free = annotation::othersOf(at.type.asStruct()) != nullptr;
      at.known = false;
    }
  }
  return at;
}

}  // namespace

Shape shapeOfConfig(kj::ArrayPtr<const kj::StringPtr> path) {
  auto at = find(path);
  if (!at.known) return laterShape(at.pattern);
  if (at.type.isList()) return at.map ? Shape::kMapping : Shape::kList;
  return at.type.isStruct() ? Shape::kMapping : Shape::kUnknown;
}

bool isConfigKey(kj::ArrayPtr<const kj::StringPtr> path) {
  auto at = find(path);
  if (at.known || at.free || laterShape(at.pattern) != Shape::kUnknown) return true;
  for (auto& row : config::laterKeys()) {
    if (row.path == at.pattern) return true;
  }
  return false;
}

}  // namespace talos::talosctl
