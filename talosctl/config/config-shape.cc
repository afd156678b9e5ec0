#include "talosctl/config/config-shape.h"

#include <capnp/schema.h>

#include "common/base/annotation.h"
#include "common/config/config-check.h"
#include "rpc/config.capnp.h"

namespace talos::talosctl {
namespace {

constexpr auto kItem = "[]"_kj;

// The shape of `path` among the later keys, by the keys below it.
Shape laterShape(kj::StringPtr path) {
  for (auto& row : config::laterKeys()) {
    if (!row.path.startsWith(path)) continue;
    auto rest = row.path.slice(path.size());
    if (rest.startsWith(kItem)) return Shape::kList;
    if (rest.startsWith(".")) return Shape::kMapping;
  }
  return Shape::kUnknown;
}

}  // namespace

Shape shapeOfConfig(kj::ArrayPtr<const kj::StringPtr> path) {
  capnp::Type type = capnp::Schema::from<config::Config>();
  bool known = true, map = false;
  auto pattern = kj::str();
  for (auto step : path) {
    if (known && type.isList()) {  // an item, or any key of a map
      auto item = type.asList().getElementType();
      pattern = kj::str(pattern, map ? ".*"_kj : kItem);
      type = map ? item.asStruct().getFieldByName("value").getType() : item;
      map = false;
      continue;
    }
    if (!known && laterShape(pattern) == Shape::kList) {
      pattern = kj::str(pattern, kItem);
      continue;
    }
    pattern = kj::str(pattern, pattern.size() == 0 ? "" : ".", step);
    known = known && type.isStruct();
    if (!known) continue;
    KJ_IF_MAYBE (field, annotation::fieldCalled(type.asStruct(), step)) {
      type = field->getType();
      map = annotation::has(*field, annotation::kMap);
    } else {
      known = false;
    }
  }
  if (!known) return laterShape(pattern);
  if (type.isList()) return map ? Shape::kMapping : Shape::kList;
  return type.isStruct() ? Shape::kMapping : Shape::kUnknown;
}

}  // namespace talos::talosctl
