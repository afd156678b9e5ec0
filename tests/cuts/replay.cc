#include "tests/cuts/replay.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace talos::cuts {
namespace {

using disk::LogKind;

// A medium that remembers the bytes that it overwrites.
class UndoMedium final : public disk::Medium {
 public:
  explicit UndoMedium(disk::Medium& below) : below(below) {}

  uint64_t size() const override { return below.size(); }
  void read(uint64_t offset, kj::ArrayPtr<kj::byte> into) override { below.read(offset, into); }
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes) override {
    remember(offset, bytes.size());
    below.write(offset, bytes);
  }
  void zero(uint64_t offset, uint64_t length) override {
    remember(offset, length);
    below.zero(offset, length);
  }
  kj::Maybe<disk::Range> content(disk::Range range) override { return below.content(range); }

  void undo() {
    while (!done.empty()) {
      auto& it = done.back();
      if (it.length > 0) below.zero(it.offset, it.length);
      for (auto& piece : it.pieces) below.write(piece.offset, piece.bytes);
      done.removeLast();
    }
  }

 private:
  struct Piece {
    uint64_t offset;
    kj::Array<kj::byte> bytes;
  };
  struct Done {
    uint64_t offset, length;
    kj::Vector<Piece> pieces;
  };
  disk::Medium& below;
  kj::Vector<Done> done;

  void remember(uint64_t offset, uint64_t length) {
    Done it{offset, length, {}};
    for (uint64_t at = offset, end = offset + length; at < end;) {
      KJ_IF_MAYBE (range, below.content({at, end})) {
        auto bytes = kj::heapArray<kj::byte>(range->end - range->begin);
        below.read(range->begin, bytes);
        at = range->end;
        it.pieces.add(Piece{range->begin, kj::mv(bytes)});
      } else {
        break;
      }
    }
    done.add(kj::mv(it));
  }
};

// A medium that another object owns.
class BorrowedMedium final : public disk::Medium {
 public:
  explicit BorrowedMedium(disk::Medium& of) : of(of) {}
  uint64_t size() const override { return of.size(); }
  void read(uint64_t offset, kj::ArrayPtr<kj::byte> into) override { of.read(offset, into); }
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes) override {
    of.write(offset, bytes);
  }
  void zero(uint64_t offset, uint64_t length) override { of.zero(offset, length); }
  kj::Maybe<disk::Range> content(disk::Range range) override { return of.content(range); }

 private:
  disk::Medium& of;
};

kj::ArrayPtr<const kj::byte> mapped(const std::string& path) {
  int raw;
  KJ_SYSCALL(raw = open(path.c_str(), O_RDONLY | O_CLOEXEC), path.c_str());
  kj::AutoCloseFd fd(raw);
  struct stat info;
  KJ_SYSCALL(fstat(fd, &info));
  auto size = static_cast<size_t>(info.st_size);
  KJ_REQUIRE(size >= sizeof(disk::LogHead), "not a recording", path.c_str());
  void* at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) KJ_FAIL_SYSCALL("mmap", errno, path.c_str());
  return kj::arrayPtr(static_cast<const kj::byte*>(at), size);
}

}  // namespace

Replay::Replay(kj::WaitScope& scope, const std::string& path, const std::string& folder)
    : scope(scope), log(mapped(path)) {
  disk::LogHead head;
  KJ_REQUIRE(memcmp(log.begin(), &head, sizeof head) == 0, "not a recording", path.c_str());
  read(folder);
}

Replay::~Replay() noexcept(false) {
  munmap(const_cast<kj::byte*>(log.begin()), log.size());
}

size_t Replay::writes() const {
  size_t count = 0;
  for (auto& event : all) count += event.record.kind != LogKind::kFlush;
  return count;
}

void Replay::read(const std::string& folder) {
  for (size_t at = sizeof(disk::LogHead); log.size() - at >= sizeof(disk::LogRecord);) {
    disk::LogRecord record;
    memcpy(&record, log.begin() + at, sizeof record);
    at += sizeof record;
    bool carries = record.kind == LogKind::kContent || record.kind == LogKind::kWrite;
    auto size = carries ? record.length : 0;
    if (size > log.size() - at) return;  // cut off
    auto bytes = log.slice(at, at + size);
    at += size;
    if (record.kind == LogKind::kDisk) {
      paths.push_back(folder + "/disk-" + std::to_string(record.disk));
      int raw;
      KJ_SYSCALL(raw = open(paths.back().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      kj::AutoCloseFd fd(raw);
      KJ_SYSCALL(ftruncate(fd, static_cast<off_t>(record.length)));
      disks.add(Disk{kj::heap<disk::FileMedium>(kj::mv(fd)), {}});
      continue;
    }
    KJ_REQUIRE(record.disk < disks.size(), "a damaged recording");
    Event event{record, bytes};
    if (record.kind == LogKind::kContent) {
      disks[record.disk].medium->write(record.offset, bytes);
    } else {
      all.add(event);
    }
  }
}

void Replay::perform(disk::Medium& medium, const Event& event) {
  if (event.record.kind == LogKind::kWrite) medium.write(event.record.offset, event.bytes);
  if (event.record.kind == LogKind::kZero) medium.zero(event.record.offset, event.record.length);
}

void Replay::rollTo(size_t event) {
  KJ_REQUIRE(event >= rolled && event <= all.size(), "a recording is not replayed backwards");
  for (; rolled < event; ++rolled) {
    auto& it = disks[all[rolled].record.disk];
    if (all[rolled].record.kind != LogKind::kFlush) {
      it.unflushed.add(rolled);
      continue;
    }
    for (auto i : it.unflushed) perform(*it.medium, all[i]);
    it.unflushed.clear();
  }
}

disk::Cut Replay::cut(size_t event, When when, uint64_t seed, kj::FunctionParam<void()> look) {
  rollTo(event);
  kj::Vector<kj::Own<UndoMedium>> undoable;
  KJ_DEFER(for (auto& it : undoable) it->undo());
  disk::MachineDisks machine;
  kj::Vector<disk::Export*> exports;
  std::vector<size_t> coming;
  for (auto& it : disks) {
    undoable.add(kj::heap<UndoMedium>(*it.medium));
    exports.add(&machine.add(kj::heap<BorrowedMedium>(*undoable.back())));
    coming.insert(coming.end(), it.unflushed.begin(), it.unflushed.end());
  }
  std::sort(coming.begin(), coming.end());
  if (when == When::kAt) coming.push_back(event);
  kj::Maybe<kj::Promise<disk::Cut>> cutting;
  if (when == When::kAt) cutting = machine.cut(coming.size(), seed);
  for (auto i : coming) {
    auto& [record, bytes] = all[i];
    auto& disk = *exports[record.disk];
    bool durable = record.durable != 0;
    auto done = record.kind == LogKind::kWrite ? disk.write(record.offset, bytes, durable)
                                               : disk.zero(record.offset, record.length, durable);
    KJ_REQUIRE(done.poll(scope) || i == event, "a write was not done");
  }
  if (when == When::kBefore) cutting = machine.cut(0, seed);
  auto result = KJ_ASSERT_NONNULL(cutting).wait(scope);
  look();
  return result;
}

Scratch::Scratch() {
  char name[] = "/tmp/talos-cuts-XXXXXX";
  KJ_REQUIRE(mkdtemp(name) != nullptr, strerror(errno));
  folder = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace talos::cuts
