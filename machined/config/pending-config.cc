#include "machined/config/pending-config.h"

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
                 return Pending(in.getMode(), kj::heapArray(in.getDocument().asChars()));
               })) {
    if (found->mode <= rpc::ApplyMode::STAGED) return kj::mv(*found);
  }
  return nullptr;
}

kj::Promise<void> holdPending(Process1& process1, const Pending& pending) {
  return heldChange(process1).hold([&](rpc::HeldChange::Builder out) {
    out.setMode(pending.mode);
    out.setDocument(pending.text.asBytes());
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

}  // namespace talos::machined
