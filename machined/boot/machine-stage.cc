#include "machined/boot/machine-stage.h"

#include "common/base/fill-list.h"
#include "machined/process1/value-in-memory-file.h"

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

namespace {

Held<rpc::HeldProgress> heldProgress(Process1& process1) {
  return {process1, "progress"};
}

Progress progressOf(rpc::HeldProgress::Reader in) {
  Progress result;
  if (in.getStage() > Progress::Stage::RESETTING) return result;  // written by another version
  result.stage = in.getStage();
  for (auto problem : in.getProblems()) result.problems.add(kj::str(problem));
  return result;
}

}  // namespace

Progress takeProgress(Process1& process1) {
  return heldProgress(process1).take(progressOf).orDefault(Progress());
}

kj::Promise<void> holdProgress(Process1& process1, const Progress& progress) {
  return heldProgress(process1).hold([&](rpc::HeldProgress::Builder out) {
    out.setStage(progress.stage);
    fillTexts(out.initProblems(progress.problems.size()), progress.problems);
  });
}

}  // namespace talos::machined
