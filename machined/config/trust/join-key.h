// The key of a node that joins with a join token: the token is spent for one key, so all requests
// of the node with that token are for the same.
//
// Made once, and on STATE (mode 0600, whole or missing) before anybody is asked for a certificate:
// a join that was cut off by a power cut goes on with it. A node that is being installed has none
// until its STATE is mounted: a token that is spent for a key of memory is lost with the reboot
// that ends the installation. On a node without a STATE it is in memory and in JoinSpecs alone,
// from where a new brain has it; a reboot ends it. A file that is there counts more than what is in
// memory. A file that cannot be read or written is logged. Removed when the node has no join token
// any more.
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
    kj::Function<bool()> isStateToCome;  // it is not mounted, and the node will not run without it
    kj::StringPtr file = kJoinKeyFile;
  };
  explicit JoinKey(Dependencies d) : deps(kj::mv(d)) {}
  KJ_DISALLOW_COPY_AND_MOVE(JoinKey);

  // `known`: the key that the store has, or none. The result is valid until the next call; empty
  // while STATE is to come.
  kj::Promise<kj::StringPtr> get(kj::StringPtr known);
  kj::Promise<void> remove();

 private:
  Dependencies deps;
  pki::Pem key;
  bool onDisk = false, removed = false;

  kj::Promise<void> settle();
};

}  // namespace talos::machined
