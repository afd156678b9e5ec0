// The key of a node that joins with a join token. A token can be used for one key only, so all
// requests of the node with that token have the same key.
//
// The key is made once, and is on STATE (mode 0600, whole or missing) before the first request for
// a certificate: a join that was interrupted by a power cut continues with this key. A node that is
// being installed has no key until its STATE is mounted: if its token were used for a key in
// memory, the token would be lost with the reboot that ends the installation. On a node without a
// STATE the key is only in memory and in JoinSpecs, from where a new brain takes it; a reboot loses
// it. An existing file takes precedence over the key in memory. A file that cannot be read or
// written is logged. The key is removed when the node has no join token any more.
#pragma once

#include <kj/function.h>

#include "common/tls/pki.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kJoinKeyFile = "/system/state/join-key"_kj;

class JoinKey {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Function<bool()> isMounted;      // STATE
    kj::Function<bool()> isStateToCome;  // not mounted yet; the node cannot run without it
    kj::StringPtr file = kJoinKeyFile;
  };
  explicit JoinKey(Dependencies d) : deps(kj::mv(d)) {}
  KJ_DISALLOW_COPY_AND_MOVE(JoinKey);

  // `known` is the key in the store, or empty. The result is valid until the next call; empty while
  // STATE is not mounted yet.
  kj::Promise<kj::StringPtr> get(kj::StringPtr known);
  kj::Promise<void> remove();

 private:
  Dependencies deps;
  pki::Pem key;
  bool onDisk = false, removed = false;

  kj::Promise<void> settle();
};

}  // namespace talos::machined
