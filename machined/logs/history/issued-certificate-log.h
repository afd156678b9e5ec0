// The records of issued certificates (IssuedCertificates, written by trustd), kept on STATE: after
// a reboot they are in the store again before trustd starts, so `get issuedcertificates` shows them
// and trustd restores its name book from them.
//
// Append-only: a frame (append-only-frames.h) for each record that was added or removed. When the
// file is larger than twice the live records, and than 64 KiB, a new file replaces it in one
// rename. A record is on disk a moment after it is in the store; a power cut in between loses it.
// Without a STATE this does nothing. The file is read defensively; invalid records in it are
// skipped.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kIssuedFile = "/system/state/issued-certificates"_kj;
// The store accepts 7 MiB of them (resource-access.h); the file has at most twice that, plus the
// records that were added before it was rewritten.
constexpr size_t kMostIssuedBytes = 28u << 20;

class IssuedRecords {
 public:
  IssuedRecords(UvLoop& uv, kj::Timer& timer, Store& store,
                kj::Function<void(kj::StringPtr line)> say, kj::StringPtr file = kIssuedFile);
  KJ_DISALLOW_COPY_AND_MOVE(IssuedRecords);

  // Puts the stored records into the store, and keeps new ones from now on. Called once; does not
  // reject: a disk that fails is reported and retried.
  kj::Promise<void> begin();
  // Called after begin(): when this resolves, the store's records are on disk, unless the disk
  // fails.
  kj::Promise<void> end();

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Store& store;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String file, lastReported;
  kj::TreeSet<kj::String> kept;
  size_t fileBytes = 0, liveBytes = 0;
  Signal changed;
  kj::Own<void> subscription;
  bool loaded = false, ending = false;
  kj::Own<kj::PromiseFulfiller<void>> stop;
  kj::ForkedPromise<void> stopped = nullptr;
  kj::Promise<void> keeping = kj::READY_NOW;

  kj::Promise<void> runUntilEnded(kj::Own<kj::PromiseFulfiller<void>> tried);
  kj::Promise<void> load();
  kj::Promise<void> write();
  kj::Promise<void> rewrite();
};

}  // namespace talos::machined
