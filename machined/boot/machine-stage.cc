#include "machined/boot/machine-stage.h"

namespace talos::machined {

kj::StringPtr nameOf(rpc::Status::Stage stage) {
  static constexpr kj::StringPtr kNames[] = {"booting"_kj,   "running"_kj,      "failed"_kj,
                                             "rebooting"_kj, "shuttingDown"_kj, "maintenance"_kj,
                                             "resetting"_kj};
  auto index = static_cast<size_t>(stage);
  return index < kj::size(kNames) ? kNames[index] : "unknown"_kj;
}

void MachineStatus::set(Stage stage, kj::Vector<kj::String> problems) {
  current = stage;
  stageProblems = kj::mv(problems);
  changed();
}

void MachineStatus::setFailing(kj::Vector<kj::String> problems) {
  failures = kj::mv(problems);
  changed();
}

void MachineStatus::fill(rpc::Status::Builder out, kj::ArrayPtr<const kj::String> others) const {
  out.setStage(current);
  auto list = out.initProblems(
      static_cast<unsigned>(stageProblems.size() + failures.size() + others.size()));
  unsigned at = 0;
  for (auto& problem : stageProblems) list.set(at++, problem);
  for (auto& problem : failures) list.set(at++, problem);
  for (auto& problem : others) list.set(at++, problem);
}

}  // namespace talos::machined
