// The connection of a dashboard, which is replaced when no node answers through it any more: a
// machine that was switched off leaves one behind that looks alive. Who uses it holds it until its
// own call has ended.
#pragma once

#include <kj/refcount.h>

#include "common/base/error.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl::dashboard {

// The newest answer to a question; none: it was never answered.
template <typename Results>
using Kept = kj::Maybe<capnp::Response<Results>>;

class SharedClient {
 public:
  // A node that takes longer to answer is silent.
  static constexpr kj::Duration kAnswer = 5 * kj::SECONDS;

  class Held final : public kj::Refcounted {
   public:
    Held(Dependencies& deps, Target target)
        : client(deps, kj::mv(target)), replaced(kj::newPromiseAndFulfiller<void>()) {}
    Client client;
    // Several may wait for one attempt. Rejects when no endpoint answers within kConnect.
    kj::Promise<void> connect() { return client.connect(kConnect); }
    // A stream is quiet when nobody answers any more: rejects when the connection is replaced.
    kj::Promise<void> whileCurrent(kj::Promise<void> stream) {
      return stream.exclusiveJoin(whenReplaced.addBranch());
    }
    void replace() { replaced.fulfiller->reject(lost()); }

   private:
    kj::PromiseFulfillerPair<void> replaced;
    kj::ForkedPromise<void> whenReplaced = replaced.promise.fork();
    static kj::Exception lost() {
      return error(ErrorKind::kUnavailable, "no node answers through this connection any more");
    }
  };

  SharedClient(Invocation& call) : call(call), held(make()) {}
  KJ_DISALLOW_COPY_AND_MOVE(SharedClient);

  kj::Own<Held> get() { return kj::addRef(*held); }
  // The endpoints are tried anew by the next call, and streams through the connection of now end.
  void renew() {
    auto before = kj::mv(held);
    held = make();
    before->replace();
  }

 private:
  static constexpr kj::Duration kConnect = 10 * kj::SECONDS;
  Invocation& call;
  kj::Own<Held> held;

  kj::Own<Held> make() { return kj::refcounted<Held>(call.deps, resolveTarget(call)); }
};

}  // namespace talos::talosctl::dashboard
