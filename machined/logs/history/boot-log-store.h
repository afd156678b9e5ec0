// The logs of earlier boots, on STATE: a folder for each of the newest eight boots, named by its
// boot id, with the newest part of each source (logs, the audit log, events, the kernel's crash
// log).
//
//   /system/state/boots/<boot id>/<source>.<number>     frames (append-only-frames.h), mode 0600
//
// A source is written to its newest file. When that is full, the next one is begun, and what is
// before the last two is removed: so at least half of a source's bound is kept. Whoever fills one
// source cannot push out another, or another boot's: every source, boot and the whole have their
// bounds. The source `boot` has lines "key=value" of the boot itself; the last of each key counts.
//
// Append-only: nothing that was written is changed, and it is there after a crash as far as sync()
// came. A brain that starts again goes on where the files end (position()). Blocking, for the
// thread pool; one call at a time, but other objects may read meanwhile.
#pragma once

#include <kj/io.h>
#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::machined {

constexpr kj::StringPtr kBootsFolder = "/system/state/boots"_kj;

// 24 MiB of a STATE of 100 MiB: a boot may leave 3 MiB, that is 20 sources of 128 KiB and two, the
// audit log and the events, of 256 KiB.
constexpr unsigned kMostBoots = 8;
constexpr unsigned kMostSources = 22;
constexpr size_t kMostOfSource = 128u << 10, kMostOfLargeSource = 256u << 10;
constexpr uint64_t kMostOfAll = 24u << 20;

constexpr kj::StringPtr kBootSource = "boot"_kj, kEventsSource = "events"_kj,
                        kKernelCrashSource = "kernel-last-words"_kj;

struct BootSummary {
  kj::String id;
  uint64_t number = 0;  // of its boot, counted on this STATE
  kj::String began, version, reason;
  kj::String ended;  // the time of its last entry
};

class BootStore {
 public:
  // `large`: sources that may have kMostOfLargeSource.
  explicit BootStore(kj::StringPtr root = kBootsFolder, kj::StringPtr large = "audit");

  // Goes on with this boot's folder, or makes it, and removes the oldest beyond the bounds.
  void begin(kj::StringPtr bootId);

  // How much of a source of this boot there is.
  uint64_t position(kj::StringPtr source);
  // Nothing happens for a source with a name that no file can have, and for one too many.
  void append(kj::StringPtr source, uint64_t position, kj::ArrayPtr<const char> piece);
  void note(kj::StringPtr key, kj::StringPtr value);  // a line of `boot`; one line, cut at 1 KiB
  void sync();

  // For a boot that has ended; the kernel's crash log comes with the next one.
  void appendTo(kj::StringPtr bootId, kj::StringPtr source, kj::ArrayPtr<const char> text);
  void noteOf(kj::StringPtr bootId, kj::StringPtr key, kj::StringPtr value);

  kj::Vector<BootSummary> list() const;  // oldest first
  // The logs, sorted: without `boot` and the events.
  kj::Vector<kj::String> sources(kj::StringPtr bootId) const;
  // None when the boot or the source is unknown.
  kj::Maybe<kj::Vector<char>> read(kj::StringPtr bootId, kj::StringPtr source) const;

 private:
  struct Writing {
    kj::AutoCloseFd file;
    unsigned number = 0;
    size_t size = 0;
    uint64_t position = 0;
    bool dirty = false;
  };
  kj::String root, large, current;
  kj::TreeMap<kj::String, Writing> files;

  kj::String folder(kj::StringPtr bootId) const;
  kj::Vector<unsigned> numbers(kj::StringPtr bootId, kj::StringPtr source) const;
  kj::Maybe<Writing&> writing(kj::StringPtr source);
  Writing openNewest(kj::StringPtr bootId, kj::StringPtr source) const;
  void startFile(Writing& writing, kj::StringPtr bootId, kj::StringPtr source,
                 unsigned number) const;
  void appendTo(Writing& writing, kj::StringPtr bootId, kj::StringPtr source, uint64_t position,
                kj::ArrayPtr<const char> piece) const;
  BootSummary summaryOf(kj::StringPtr bootId) const;
  void removeBeyondBounds();
};

}  // namespace talos::machined
