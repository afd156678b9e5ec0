#include "machined/hardware/memory-errors.h"

#include "machined/hardware/attributes.h"

namespace talos::machined {
namespace {

constexpr size_t kMostControllers = 256, kMostModules = 1024;

kj::Maybe<uint64_t> counter(kj::StringPtr folder, kj::StringPtr name) {
  auto value = KJ_UNWRAP_OR_RETURN(attributeNumber(folder, name), nullptr);
  if (value < 0) return nullptr;
  return static_cast<uint64_t>(value);
}

void addModulesOf(kj::StringPtr folder, kj::StringPtr id, kj::StringPtr controller,
                  kj::Vector<MemoryErrors>& all) {
  for (auto kind : {"dimm"_kj, "rank"_kj}) {
    for (auto& name : numberedNames(folder, kind, kMostModules)) {
      auto module = kj::str(folder, "/", name);
      KJ_IF_MAYBE (corrected, counter(module, "dimm_ce_count")) {
        auto label = attributeText(module, "dimm_label");
        all.add(MemoryErrors{.id = kj::str(id, "-", name),
                             .controller = kj::str(controller),
                             .module = label.size() > 0 ? kj::mv(label) : kj::str(name),
                             .mebibytes = counter(module, "size").orDefault(0),
                             .corrected = *corrected,
                             .uncorrected = counter(module, "dimm_ue_count").orDefault(0)});
      }
    }
  }
}

}  // namespace

kj::Vector<MemoryErrors> readMemoryErrors(kj::StringPtr sys) {
  kj::Vector<MemoryErrors> all;
  auto controllers = kj::str(sys, "/devices/system/edac/mc");
  for (auto& id : numberedNames(controllers, "mc", kMostControllers)) {
    auto folder = kj::str(controllers, "/", id);
    KJ_IF_MAYBE (corrected, counter(folder, "ce_count")) {
      auto name = attributeText(folder, "mc_name");
      all.add(MemoryErrors{.id = kj::str(id),
                           .controller = kj::str(name),
                           .module = kj::String(),
                           .mebibytes = counter(folder, "size_mb").orDefault(0),
                           .corrected = *corrected,
                           .uncorrected = counter(folder, "ue_count").orDefault(0)});
      addModulesOf(folder, id, name, all);
    }
  }
  return all;
}

}  // namespace talos::machined
