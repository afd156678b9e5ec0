// The records of issued certificates (IssuedCertificates, written by trustd), kept on STATE: after
// a reboot they are in the store again before trustd starts, so `get issuedcertificates` shows them
// and trustd's name book is recalled from them.
//
// Append-only: a frame (append-only-frames.h) for each record that came or went. When the file is
// larger than twice what is alive, and than 64 KiB, a new one takes its place in one rename. A
// record is on disk a moment after it is in the store; a power cut in between loses it. Without a
// STATE it does nothing. The file is read defensively; what is no record in it is passed over.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kIssuedFile = "/system/state/issued-certificates"_kj;
// The store takes 7 MiB of them (resource-access.h); the file has at most twice that, and what was
// added before it was rewritten.
constexpr size_t kMostIssuedBytes = 28u << 20;

class IssuedRecords {
 public:
  IssuedRecords(UvLoop& uv, kj::Timer& timer, Store& store,
                kj::Function<void(kj::StringPtr line)> say, kj::StringPtr file = kIssuedFile);
  KJ_DISALLOW_COPY_AND_MOVE(IssuedRecords);

  // Puts what was kept into the store, and keeps what comes from here on. Once; does not reject: a
  // disk that fails is reported, and tried again.
  kj::Promise<void> begin();
  // After begin(): what is in the store is on disk when it resolves, unless the disk fails.
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

  kj::Promise<void> keepOn(kj::Own<kj::PromiseFulfiller<void>> tried);
  kj::Promise<void> load();
  kj::Promise<void> write();
  kj::Promise<void> rewrite();
};

}  // namespace talos::machined
