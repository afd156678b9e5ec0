#include "machined/config/config-trial.h"

#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {
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
