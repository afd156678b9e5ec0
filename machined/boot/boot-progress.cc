#include "machined/boot/boot-progress.h"

#include "machined/process1/value-in-memory-file.h"

namespace talos::machined {
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
    auto problems = out.initProblems(progress.problems.size());
    for (auto i : kj::indices(progress.problems)) problems.set(i, progress.problems[i]);
  });
}

}  // namespace talos::machined
