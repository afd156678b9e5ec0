// The connection of a dashboard. It is replaced when no node answers through it any more: a machine
// that was switched off leaves a connection that looks alive. A user of the connection holds it
// until its own call has ended.
#pragma once

#include <kj/refcount.h>

#include "common/base/error.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl::dashboard {

// The newest answer to a request; nullptr: never answered.
template <typename Results>
using Kept = kj::Maybe<capnp::Response<Results>>;

class SharedClient {
 public:
  // Time after which a node without an answer counts as silent.
  static constexpr kj::Duration kAnswer = 5 * kj::SECONDS;

  class Held final : public kj::Refcounted {
   public:
    Held(Dependencies& deps, Target target)
        : client(deps, kj::mv(target)), replaced(kj::newPromiseAndFulfiller<void>()) {}
    Client client;
    // Connects; several callers may wait for one attempt. Rejects if no endpoint answers within
    // kConnect.
    kj::Promise<void> connect() { return client.connect(kConnect); }
    // Rejects when the connection is replaced: otherwise a stream would stay quiet after its node
    // stopped answering.
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
  // Makes the next call try the endpoints again, and ends streams through the present connection.
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
