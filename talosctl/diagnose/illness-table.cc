#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

kj::ArrayPtr<const Check> allChecks() {
#define LIST(...) {__VA_ARGS__}
#define CHECK(name, layer, function, needs, because) {name, layer, function, needs, because},
  static const Check kChecks[] = {
#include "talosctl/diagnose/illnesses.inc"
  };
#undef CHECK
#undef LIST
  return kChecks;
}

}  // namespace talos::talosctl
