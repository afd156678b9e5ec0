// The connection of a dashboard, which is replaced when no node answers through it any more: a
// machine that was switched off leaves one behind that looks alive. Who uses it holds it until its
// own call has ended.
#pragma once

#include <kj/refcount.h>

#include "talosctl/client/cluster-client.h"

namespace talos::talosctl::dashboard {

// The newest answer to a question; none: it was never answered.
template <typename Results>
using Kept = kj::Maybe<capnp::Response<Results>>;

class SharedClient {
 public:
  struct Held final : public kj::Refcounted {
    Held(Dependencies& deps, Target target) : client(deps, kj::mv(target)) {}
    Client client;
    // Several may wait for one attempt. Rejects when no endpoint answers within kConnect.
    kj::Promise<void> connect() { return client.connect(kConnect); }
  };

  SharedClient(Invocation& call) : call(call) { renew(); }
  KJ_DISALLOW_COPY_AND_MOVE(SharedClient);

  kj::Own<Held> get() { return kj::addRef(*KJ_ASSERT_NONNULL(held)); }
  // The endpoints are tried anew by the next call.
  void renew() { held = kj::refcounted<Held>(call.deps, target()); }

 private:
  static constexpr kj::Duration kConnect = 10 * kj::SECONDS;
  Invocation& call;
  kj::Maybe<kj::Own<Held>> held;

  Target target() { return resolveTarget(call); }
};

}  // namespace talos::talosctl::dashboard
