// The file on STATE with the facts that the platform's service gave last, as a Cap'n Proto message
// of rpc::PlatformFacts, mode 0600. The next boot uses these facts until the service answers: it
// may be down, or reachable only through the network that the facts state.
//
// The file is whole or missing, and is written only when it changes. A file that is damaged, or of
// another platform, counts as missing and is logged. STATE is mounted late in a boot, sometimes
// only after a config was applied: a boot task calls stateMayBeMounted().
#pragma once

#include <kj/async.h>
#include <kj/function.h>

#include "machined/confined/parser-client/known-facts.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kPlatformFactsFile = "/system/state/platform-facts"_kj;

class PlatformFactsFile {
 public:
  // `mounted` returns true if STATE is mounted.
  PlatformFactsFile(UvLoop& uv, kj::StringPtr platform, kj::Function<bool()> mounted,
                    kj::StringPtr path = kPlatformFactsFile);
  KJ_DISALLOW_COPY_AND_MOVE(PlatformFactsFile);

  // Called when STATE may have been mounted. A second call changes nothing.
  kj::Promise<void> stateMayBeMounted();
  // Returns the facts of an earlier boot, when STATE is mounted; may be empty. Must be called only
  // once.
  kj::Promise<KnownFacts> earlier() { return kj::mv(coming); }
  // Writes the facts, now or when STATE is mounted. Does not reject: an error is logged.
  kj::Promise<void> keep(KnownFacts facts);

 private:
  UvLoop& uv;
  kj::StringPtr platform;
  kj::Function<bool()> mounted;
  kj::String path;
  kj::Own<kj::PromiseFulfiller<KnownFacts>> came;
  kj::Promise<KnownFacts> coming = nullptr;
  KnownFacts wanted;

  kj::Promise<void> write();
};

}  // namespace talos::machined
