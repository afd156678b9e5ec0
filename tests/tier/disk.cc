#include "tests/tier/disk.h"

#include <capnp/message.h>

#include "tests/tier/tier.h"

namespace talos::tier {
namespace {

using install::Slot;

constexpr auto kRecordWrite = 30 * kj::MILLISECONDS, kSlotWrite = 1500 * kj::MILLISECONDS,
               kUnflushed = 20 * kj::SECONDS;

Slot slotIn(kj::StringPtr name) {
  return KJ_ASSERT_NONNULL(install::slotNamed(name), name);
}

// The size of an image's only part is the number of the image.
unsigned imageIn(capnp::List<rpc::ImagePart>::Reader parts) {
  return unsigned(parts[0].getSize());
}

}  // namespace

Slot Disk::start() {
  KJ_IF_MAYBE (slot, environment.attempt) {
    if (environment.tries > 0) {
      if (!machine.tier.mistakes.loaderForgetsTries) --environment.tries;
      return *slot;
    }
  }
  return environment.confirmed;
}

void Disk::flush() {
  if (unflushed != 0) imageOf(unflushedSlot) = unflushed;
  unflushed = 0;
}

kj::Promise<void> Disk::write(kj::Duration most, kj::Function<void()> change) {
  auto& tier = machine.tier;
  ++tier.outcome.writes;
  auto cut = machine.takeArmedCut();
  co_await tier.bed.delay(most);
  bool fails = failsNext;
  failsNext = false;
  if (fails) tier.probe(Probe::kWriteError);
  if (cut == Machine::ArmedCut::kBefore) co_await machine.cutNow();
  if (!fails || failsSilently) change();
  if (cut == Machine::ArmedCut::kAfter) co_await machine.cutNow();
  co_await tier.bed.delay(1 * kj::MILLISECONDS);
  if (fails) fail(ErrorKind::kInternal, "Input/output error");
}

kj::Promise<bool> Disk::run(Fill) {
  return error(ErrorKind::kUnimplemented, "the model has no such request");
}

kj::Promise<void> Disk::slots(Fill fill, Hear hear, int) {
  capnp::MallocMessageBuilder message, answer;
  auto builder = message.initRoot<rpc::InstallRequest>();
  fill(builder);
  auto request = builder.asReader();
  auto out = answer.initRoot<rpc::Slots>();
  co_await machine.tier.bed.delay(20 * kj::MILLISECONDS);
  if (request.isVersion()) {
    auto image = imageIn(request.getVersion().getParts());
    if (machine.sicknessOf(image) == Sickness::kUnwritable) {
      fail(ErrorKind::kFailedPrecondition, "the image is too large for the slot");
    }
    out.setImage(versionOf(image));
    hear(out);
    co_return;
  }
  if (request.isUpgradeFrom()) co_await writeSlot(request);
  if (request.isChoose()) co_await choose(request.getChoose());
  out.setConfirmed(nameOf(environment.confirmed));
  KJ_IF_MAYBE (slot, environment.attempt) out.setAttempt(nameOf(*slot));
  out.setTries(environment.tries);
  unsigned count = (images[0] != 0) + (images[1] != 0), next = 0;
  auto list = out.initSystems(count);
  for (unsigned i : {0u, 1u}) {
    if (images[i] == 0) continue;
    list[next].setSlot(i == 0 ? "A" : "B");
    list[next++].setVersion(versionOf(images[i]));
  }
  hear(out);
}

kj::Promise<void> Disk::writeSlot(rpc::InstallRequest::Reader request) {
  auto params = request.getUpgradeFrom();
  auto slot = slotIn(params.getSlot());
  auto image = imageIn(params.getParts());
  if (slot == environment.confirmed) {
    fail(ErrorKind::kFailedPrecondition, "this slot is the confirmed one");
  }
  co_await write(kRecordWrite, [this, slot]() {
    environment.attempt = nullptr;
    environment.tries = 0;
    imageOf(slot) = 0;
  });
  if (machine.tier.mistakes.slotIsNotFlushed) {
    co_await machine.tier.bed.delay(kSlotWrite);
    unflushed = image;
    unflushedSlot = slot;
    machine.later(kUnflushed, [this]() { flush(); });
    co_return;
  }
  co_await write(kSlotWrite, [this, slot, image]() { imageOf(slot) = image; });
}

kj::Promise<void> Disk::choose(rpc::InstallRequest::Choose::Reader params) {
  auto confirmed = slotIn(params.getConfirmed());
  auto attempt = install::slotNamed(params.getAttempt());
  auto timeout = params.getHealthTimeoutS();
  KJ_IF_MAYBE (slot, attempt) {
    bool whole = imageOf(*slot) != 0 || machine.tier.mistakes.slotIsNotFlushed;
    if (!whole) fail(ErrorKind::kNotFound, "there is no system in this slot");
  }
  co_await write(kRecordWrite, [this, confirmed, attempt, timeout]() {
    machine.tier.judges.judgeChoice(machine, confirmed);
    environment.confirmed = confirmed;
    environment.attempt = attempt;
    environment.tries = attempt == nullptr ? 0 : 1;
    environment.healthTimeoutS = timeout;
  });
}

kj::Promise<void> Disk::empty(kj::String) {
  machine.tier.judges.judgeWipe(machine);
  co_await write(kRecordWrite, [this]() { data = Content::kHalf; });
  co_await write(kSlotWrite, [this]() {
    data = Content::kEmpty;
    machine.loseEphemeral();
  });
}

}  // namespace talos::tier
