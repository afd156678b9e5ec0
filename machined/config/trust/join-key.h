// The key of a node that joins with a join token: the token is spent for one key, so all requests
// of the node with that token are for the same.
//
// Made once, and on STATE (mode 0600, whole or missing) before anybody is asked for a certificate:
// a join that was cut off by a power cut goes on with it. While STATE is not mounted it is in
// memory and in JoinSpecs alone, from where a new brain has it; without a STATE a reboot ends it. A
// file that is there counts more than what is in memory. A file that cannot be read or written is
// logged. Removed when the node has no join token any more.
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
    kj::Function<bool()> isMounted;  // STATE
    kj::StringPtr file = kJoinKeyFile;
  };
  explicit JoinKey(Dependencies d) : deps(kj::mv(d)) {}
  KJ_DISALLOW_COPY_AND_MOVE(JoinKey);

  // `known`: the key that the store has, or none. The result is valid until the next call.
  kj::Promise<kj::StringPtr> get(kj::StringPtr known);
  kj::Promise<void> remove();

 private:
  Dependencies deps;
  pki::Pem key;
  bool onDisk = false, removed = false;

  kj::Promise<void> settle();
};

}  // namespace talos::machined
