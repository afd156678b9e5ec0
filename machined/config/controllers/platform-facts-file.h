// The facts of the platform on STATE: those that its service gave last, as a Cap'n Proto message of
// rpc::PlatformFacts, mode 0600. The next boot uses them until the service answers, which may be
// down, or only be reached through the network that is stated in them.
//
// The file is whole or missing, and is written only when it changes. One that is damaged counts as
// missing, and so does another platform's; both are logged. STATE is mounted late in a boot, maybe
// only with a config: a boot task says when.
#pragma once

#include <kj/async.h>
#include <kj/function.h>

#include "machined/confined/parser-client/known-facts.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kPlatformFactsFile = "/system/state/platform-facts"_kj;

class PlatformFactsFile {
 public:
  // `mounted`: STATE is.
  PlatformFactsFile(UvLoop& uv, kj::StringPtr platform, kj::Function<bool()> mounted,
                    kj::StringPtr path = kPlatformFactsFile);
  KJ_DISALLOW_COPY_AND_MOVE(PlatformFactsFile);

  // STATE may have been mounted now. Again, it changes nothing.
  kj::Promise<void> stateMayBeMounted();
  // Those of an earlier boot, when STATE is mounted; there may be none. To be called once.
  kj::Promise<KnownFacts> earlier() { return kj::mv(coming); }
  // Writes them, now or when STATE is mounted. Does not reject: an error is logged.
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
