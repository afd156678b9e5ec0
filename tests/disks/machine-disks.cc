#include "tests/disks/machine-disks.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::disk {
namespace {

kj::Array<uint64_t> loseAll(size_t count) {
  auto fates = kj::heapArray<uint64_t>(count);
  for (auto& fate : fates) fate = 0;
  return fates;
}

}  // namespace

class MachineDisks::Disk final : public Export {
 public:
  Disk(MachineDisks& machine, uint32_t number, kj::Own<Medium> held)
      : medium(kj::mv(held)),
        machine(machine),
        number(number),
        disk(*medium, machine.mostRemembered) {}
  kj::Own<Medium> medium;

  uint64_t size() const override { return medium->size(); }

  kj::Promise<void> read(uint64_t offset, kj::ArrayPtr<kj::byte> into) override {
    if (machine.off) return kj::NEVER_DONE;
    disk.read(offset, into);
    return kj::READY_NOW;
  }

  kj::Promise<void> write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes,
                          bool durable) override {
    return change([&](bool answered) { disk.write(offset, bytes, durable && answered); },
                  {.kind = LogKind::kWrite,
                   .disk = number,
                   .offset = offset,
                   .length = bytes.size(),
                   .durable = durable},
                  bytes);
  }

  kj::Promise<void> zero(uint64_t offset, uint64_t length, bool durable) override {
    return change([&](bool answered) { disk.zero(offset, length, durable && answered); },
                  {.kind = LogKind::kZero,
                   .disk = number,
                   .offset = offset,
                   .length = length,
                   .durable = durable});
  }

  kj::Promise<void> flush() override {
    if (machine.off) return kj::NEVER_DONE;
    disk.flush();
    machine.note({.kind = LogKind::kFlush, .disk = number});
    return kj::READY_NOW;
  }

  void cut(Cut& sum, kj::Maybe<uint64_t> seed) {
    auto lengths = disk.unflushed();
    kj::Array<uint64_t> fates;
    KJ_IF_MAYBE (it, seed) {
      fates = drawFates(lengths, *it);
    } else {
      fates = loseAll(lengths.size());
    }
    for (auto i : kj::indices(lengths)) {
      ++sum.unflushed;
      sum.kept += fates[i] > 0;
      sum.torn = sum.torn || (fates[i] > 0 && fates[i] < lengths[i]);
    }
    disk.cut(fates);
  }

 private:
  MachineDisks& machine;
  uint32_t number;
  VolatileDisk disk;

  template <typename Do>
  kj::Promise<void> change(Do&& perform, const LogRecord& record,
                           kj::ArrayPtr<const kj::byte> bytes = nullptr) {
    if (machine.off) return kj::NEVER_DONE;
    if (!machine.countsDown()) {
      perform(true);
      machine.note(record, bytes);
      return kj::READY_NOW;
    }
    // This one is not answered, so its failure is not reported.
    auto failed = kj::runCatchingExceptions([&] { perform(false); });
    auto armed = kj::mv(KJ_ASSERT_NONNULL(machine.armed));
    machine.armed = nullptr;
    armed.fulfiller->rejectIfThrows(
        [&] { armed.fulfiller->fulfill(machine.cutNow(armed.atWrite, armed.seed)); });
    return kj::NEVER_DONE;
  }
};

MachineDisks::MachineDisks(size_t mostRemembered) : mostRemembered(mostRemembered) {}
MachineDisks::~MachineDisks() noexcept(false) = default;

Export& MachineDisks::add(kj::Own<Medium> medium) {
  return *disks.add(kj::heap<Disk>(*this, uint32_t(disks.size()), kj::mv(medium)));
}

kj::Promise<Cut> MachineDisks::cut(uint64_t atWrite, uint64_t seed) {
  if (off) fail(ErrorKind::kFailedPrecondition, "its power was already cut");
  KJ_IF_MAYBE (other, armed) {
    if (other->fulfiller->isWaiting() && atWrite > 0) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("its power is already to be cut, at write ", other->atWrite, " of another cut"));
    }
    other->fulfiller->reject(
        error(ErrorKind::kFailedPrecondition, "its power was cut before that write"));
    armed = nullptr;
  }
  if (atWrite == 0) return cutNow(0, seed);
  auto pair = kj::newPromiseAndFulfiller<Cut>();
  armed.emplace(Armed{
      .atWrite = atWrite, .left = atWrite, .seed = seed, .fulfiller = kj::mv(pair.fulfiller)});
  return kj::mv(pair.promise);
}

void MachineDisks::record(kj::StringPtr path, uint64_t limit) {
  if (off) fail(ErrorKind::kFailedPrecondition, "its power was cut");
  if (recording().running) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("its disks are already recorded, to ", recording().path));
  }
  recordingNow = false;
  log = nullptr;
  auto media = KJ_MAP(disk, disks) {
    return disk->medium.get();
  };
  KJ_ON_SCOPE_FAILURE(log = nullptr);
  auto& made = log.emplace(path, limit);
  // It holds the content of the disks, so it must not be left over.
  KJ_ON_SCOPE_FAILURE(unlink(path.cStr()));
  made.addDisks(media);
  recordingNow = true;
}

MachineDisks::Recording MachineDisks::recording() const {
  Recording result;
  KJ_IF_MAYBE (it, log) {
    auto progress = it->progress();
    result.path = kj::str(progress.path);
    result.problem = kj::str(progress.problem);
    result.running = recordingNow && progress.problem.size() == 0;
    result.events = progress.events;
    result.writes = progress.writes;
    result.bytes = progress.bytes;
  }
  return result;
}

void MachineDisks::stopRecording() {
  recordingNow = false;
}

void MachineDisks::close() {
  off = true;
  disks.clear();
}

void MachineDisks::note(const LogRecord& record, kj::ArrayPtr<const kj::byte> bytes) {
  if (!recordingNow) return;
  KJ_IF_MAYBE (it, log) it->add(record, bytes);
}

bool MachineDisks::countsDown() {
  KJ_IF_MAYBE (it, armed) {
    if (it->fulfiller->isWaiting()) return --it->left == 0;
    armed = nullptr;  // the caller has dropped it
  }
  return false;
}

Cut MachineDisks::cutNow(uint64_t atWrite, uint64_t seed) {
  off = true;
  Cut sum{.atWrite = atWrite, .seed = seed};
  kj::Maybe<uint64_t> of;
  if (seed != 0) of = seed;
  for (auto& disk : disks) {
    disk->cut(sum, of);
    KJ_IF_MAYBE (it, of) *it += 0x9e3779b97f4a7c15;  // the disks of a machine do not fail alike
  }
  return sum;
}

}  // namespace talos::disk
