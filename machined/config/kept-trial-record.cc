#include "machined/config/kept-trial-record.h"

#include "common/memory/zeroize.h"

namespace talos::machined {
namespace {

constexpr auto kDropAgain = 10 * kj::SECONDS;

}  // namespace

bool KeptTrialRecord::load() {
  held.take([this](rpc::HeldChange::Reader in) {
    isHeld = true;
    put(decodeTrialRecord(in.getDocument().asChars()));
    KJ_IF_MAYBE (r, record) r->onlyInMemory = true;
    return true;
  });
  known = record != nullptr;
  if (known) return true;
  kj::Maybe<kj::String> text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { text = disk.read(); })) report(kj::mv(*e));
  KJ_IF_MAYBE (bytes, text) {
    KJ_DEFER(zeroize(*bytes));
    put(decodeTrialRecord(*bytes));
  }
  known = record != nullptr;
  return known;
}

bool KeptTrialRecord::hasWayBack() const {
  return record.map([](const TrialRecord& r) { return r.hasWayBack(); }).orDefault(false);
}

bool KeptTrialRecord::mustRevert() const {
  return record.map([](const TrialRecord& r) { return r.stage == TrialRecord::Stage::REVERTING; })
      .orDefault(false);
}

bool KeptTrialRecord::isBefore(kj::ArrayPtr<const char> config) const {
  return record.map([&](const TrialRecord& r) { return r.before.asPtr() == config; })
      .orDefault(false);
}

bool KeptTrialRecord::isAbout(kj::ArrayPtr<const char> config) const {
  return record.map([&](const TrialRecord& r) { return r.isAbout(config); }).orDefault(false);
}

void KeptTrialRecord::put(kj::Maybe<TrialRecord> next) {
  record = kj::mv(next);
  ++edition;
}

kj::Promise<void> KeptTrialRecord::write() {
  KJ_IF_MAYBE (r, record) {
    auto bytes = encodeTrialRecord(*r);
    if (!r->onlyInMemory) {
      auto written = disk.write(kj::mv(bytes));
      if (!isHeld) return written;
      isHeld = false;
      return written.then([this]() { return held.drop(); });
    }
    KJ_DEFER(zeroize(bytes));
    isHeld = true;
    auto holding =
        held.hold([&](rpc::HeldChange::Builder out) { out.setDocument(bytes.asBytes()); });
    return holding.then([this]() { return disk.remove(); });
  }
  if (!isHeld) return disk.remove();
  isHeld = false;
  return held.drop().then([this]() { return disk.remove(); });
}

kj::Promise<void> KeptTrialRecord::store() {
  auto writing = writes.addBranch().then([this]() { return write(); }).fork();
  writes = writing.addBranch().catch_([](kj::Exception&&) {}).fork();
  return writing.addBranch();
}

kj::Promise<void> KeptTrialRecord::tryToStore() {
  return store().catch_([this](kj::Exception&& e) { report(kj::mv(e)); });
}

kj::Promise<void> KeptTrialRecord::replace(kj::Maybe<TrialRecord> next) {
  auto before = kj::mv(record);
  put(kj::mv(next));
  known = true;
  auto mine = edition;
  kj::Maybe<kj::Exception> failure;
  co_await store().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (edition == mine) put(kj::mv(before));
    kj::throwFatalException(kj::mv(*e));
  }
}

kj::Promise<void> KeptTrialRecord::drop() {
  if (record == nullptr) co_return;
  put(nullptr);
  auto mine = edition;
  kj::Maybe<kj::Exception> failure;
  co_await store().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    report(kj::mv(*e));
    tasks.add(dropAgain(mine));
  }
}

kj::Promise<void> KeptTrialRecord::dropAgain(uint64_t mine) {
  for (bool dropped = false; !dropped;) {
    co_await timer.afterDelay(kDropAgain);
    if (edition != mine) co_return;
    co_await store().then([&]() { dropped = true; }, [](kj::Exception&&) {});
  }
}

}  // namespace talos::machined
