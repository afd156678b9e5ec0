#include "machined/config/held-config.h"

#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {
namespace {

Held<rpc::HeldChange> heldChange(Process1& process1) {
  return {process1, kPendingName};
}

Held<rpc::HeldChange> stagedMark(Process1& process1) {
  return {process1, "config/staged"};
}

}  // namespace

Pending::~Pending() noexcept(false) {
  zeroize(text);
}

kj::Maybe<Pending> takePending(Process1& process1) {
  KJ_IF_MAYBE (found, heldChange(process1).take([](rpc::HeldChange::Reader in) {
                 return Pending(in.getMode(), kj::heapArray(in.getDocument().asChars()),
                                in.getNoTrial());
               })) {
    if (found->mode <= rpc::ApplyMode::STAGED) return kj::mv(*found);
  }
  return nullptr;
}

kj::Promise<void> holdPending(Process1& process1, const Pending& pending) {
  return heldChange(process1).hold([&](rpc::HeldChange::Builder out) {
    out.setMode(pending.mode);
    out.setDocument(pending.text.asBytes());
    out.setNoTrial(pending.noTrial);
  });
}

kj::Promise<void> dropPending(Process1& process1) {
  return heldChange(process1).drop();
}

bool takeStagedInBoot(Process1& process1) {
  return stagedMark(process1).take([](rpc::HeldChange::Reader) { return true; }).orDefault(false);
}

kj::Promise<void> holdStagedInBoot(Process1& process1) {
  return stagedMark(process1).hold(
      [](rpc::HeldChange::Builder out) { out.setMode(rpc::ApplyMode::STAGED); });
}

namespace {

Held<rpc::HeldTrial> heldTrial(Process1& process1) {
  return {process1, kTrialName};
}

}  // namespace

Trial::~Trial() noexcept(false) {
  zeroize(before);
  zeroize(tried);
}

kj::Maybe<Trial> takeTrial(Process1& process1) {
  return heldTrial(process1).take([](rpc::HeldTrial::Reader in) {
    return Trial(kj::origin<kj::TimePoint>() + in.getDeadline() * kj::NANOSECONDS,
                 kj::heapArray(in.getBefore().asChars()), kj::heapArray(in.getTried().asChars()));
  });
}

kj::Promise<void> holdTrial(Process1& process1, const Trial& trial) {
  return heldTrial(process1).hold([&](rpc::HeldTrial::Builder out) {
    out.setDeadline((trial.deadline - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS);
    out.setBefore(trial.before.asBytes());
    out.setTried(trial.tried.asBytes());
  });
}

kj::Promise<void> dropTrial(Process1& process1) {
  return heldTrial(process1).drop();
}

}  // namespace talos::machined
