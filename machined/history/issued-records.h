// The records of issued certificates (IssuedCertificates, written by trustd), kept on STATE: after a
// reboot they are in the store again before trustd starts, so `get issuedcertificates` shows them
// and trustd's name book is recalled from them.
//
// Append-only: a frame (frames.h) for each record that came or went. When the file is larger than
// twice what is alive, and than 64 KiB, a new one takes its place in one rename. A record is on disk
// a moment after it is in the store; a power cut in between loses it. Without a STATE it does
// nothing. The file is read defensively; what is no record in it is passed over.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kIssuedFile = "/system/state/issued-certificates"_kj;
constexpr size_t kMostIssuedBytes = 16u << 20;  // trustd keeps 10000 records, of less than 1 KiB

class IssuedRecords {
 public:
  IssuedRecords(UvLoop& uv, kj::Timer& timer, Store& store,
                kj::Function<void(kj::StringPtr line)> say, kj::StringPtr file = kIssuedFile);
  KJ_DISALLOW_COPY_AND_MOVE(IssuedRecords);

  // Puts what was kept into the store, and keeps what comes from here on.
  kj::Promise<void> begin();
  // What is in the store is on disk when it resolves, unless the disk fails.
  kj::Promise<void> end();

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Store& store;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String file, told;
  kj::TreeSet<kj::String> kept;
  size_t fileBytes = 0, liveBytes = 0;
  Signal changed;
  kj::Own<void> subscription;
  kj::Promise<void> keeping = kj::READY_NOW;

  kj::Promise<void> keepOn();
  kj::Promise<void> write();
  kj::Promise<void> rewrite();
};

}  // namespace talos::machined
