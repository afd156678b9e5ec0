// The logs of earlier boots, on STATE: a folder for each of the newest eight boots, named by its
// boot ID, with the newest part of each source (logs, the audit log, events, the kernel's crash
// log).
//
//   /system/state/boots/<boot id>/<source>.<number>     frames (append-only-frames.h), mode 0600
//
// A source is written to its newest file. When that file is full, the next one is started, and all
// files but the last two are removed: so at least half of a source's limit is kept. A source that
// grows cannot displace another source, or another boot: every source, every boot and the whole
// have their limits. The source `boot` has lines "key=value" of the boot itself; the last line of
// each key counts.
//
// Append-only: written bytes are never changed, and those before the last sync() survive a crash. A
// restarted brain continues where the files end (position()). Blocking, for the thread pool; one
// call at a time, but other objects may read meanwhile.
#pragma once

#include <kj/io.h>
#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::machined {

constexpr kj::StringPtr kBootsFolder = "/system/state/boots"_kj;

// 24 MiB of a STATE of 100 MiB: a boot may leave 3 MiB, which are 20 sources of 128 KiB and two,
// the audit log and the events, of 256 KiB.
constexpr unsigned kMostBoots = 8;
constexpr unsigned kMostSources = 22;
constexpr size_t kMostOfSource = 128u << 10, kMostOfLargeSource = 256u << 10;
constexpr uint64_t kMostOfAll = 24u << 20;

constexpr kj::StringPtr kBootSource = "boot"_kj, kEventsSource = "events"_kj,
                        kKernelCrashSource = "kernel-last-words"_kj;

struct BootSummary {
  kj::String id;
  uint64_t number = 0;  // number of its boot, counted on this STATE
  kj::String began, version, reason;
  kj::String ended;  // the time of its last entry
};

class BootStore {
 public:
  // `large` names a source that may have kMostOfLargeSource.
  explicit BootStore(kj::StringPtr root = kBootsFolder, kj::StringPtr large = "audit");

  // Continues this boot's folder, or makes it, and removes the oldest folders beyond the limits.
  void begin(kj::StringPtr bootId);

  // Returns the end position of a source of this boot.
  uint64_t position(kj::StringPtr source);
  // Does nothing for a source whose name no file can have, and for a source beyond the limit.
  void append(kj::StringPtr source, uint64_t position, kj::ArrayPtr<const char> piece);
  void note(kj::StringPtr key, kj::StringPtr value);  // adds one line to `boot`, cut at 1 KiB
  void sync();

  // Adds to a boot that has ended; the kernel's crash log arrives with the next boot.
  void appendTo(kj::StringPtr bootId, kj::StringPtr source, kj::ArrayPtr<const char> text);
  void noteOf(kj::StringPtr bootId, kj::StringPtr key, kj::StringPtr value);

  kj::Vector<BootSummary> list() const;  // oldest first
  // Returns the logs, sorted: without `boot` and the events.
  kj::Vector<kj::String> sources(kj::StringPtr bootId) const;
  // Returns nullptr if the boot or the source is unknown.
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
