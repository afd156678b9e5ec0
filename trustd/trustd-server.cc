#include "trustd/trustd-server.h"

#include "rpc/trust.capnp.h"

namespace talos::trustd {
namespace {

// The use of a connection: calls by callers with the right to a certificate. Refused requests do
// not count: a caller without a token is disconnected after kIdle, however often it calls. The
// lookup of a join token counts, but not for longer than one lookup takes: any caller can
// repeatedly show a text that looks like a token.
struct Activity : kj::Refcounted {
  explicit Activity(kj::Timer& timer) : timer(timer), last(timer.now()) {}
  kj::Timer& timer;
  kj::TimePoint last;  // time of the last certificate; before the first: start of the connection
  unsigned calls = 0, searches = 0;

  kj::Maybe<kj::TimePoint> idleSince() const {
    if (calls > 0) return nullptr;
    if (searches > 0 && timer.now() < last + StoredJoinTokens::kTimeout) return nullptr;
    return last;
  }

  struct Use {
    Use(Activity& activity, unsigned Activity::* kind)
        : activity(kj::addRef(activity)), count(activity.*kind) {
      ++count;
    }
    ~Use() noexcept(false) { --count; }
    KJ_DISALLOW_COPY_AND_MOVE(Use);
    kj::Own<Activity> activity;
    unsigned& count;
  };
};

kj::Promise<void> idleFor(kj::Duration limit, kj::Own<Activity> activity) {
  for (;;) {
    auto now = activity->timer.now();
    auto due = activity->idleSince().orDefault(now) + limit;
    if (due <= now) co_return;
    co_await activity->timer.atTime(due);
  }
}

HeldCertificate heldOf(rpc::Trust::Held::Reader held) {
  return {.certificate = held.getCertificate(), .signature = held.getSignature()};
}

class TrustServer final : public rpc::Trust::Server {
 public:
  TrustServer(Issuer& issuer, JoinTokens& tokens, Keep& keep, const Ip& caller,
              kj::Own<Activity> activity)
      : issuer(issuer), tokens(tokens), keep(keep), caller(caller), activity(kj::mv(activity)) {}

 protected:
  kj::Promise<void> certificate(CertificateContext context) override {
    auto params = context.getParams();
    pki::Pem token(kj::str(params.getToken()));
    auto found = co_await shown(token);
    auto proofs = KJ_MAP(proof, params.getProofs())->kj::ArrayPtr<const kj::byte> {
      return proof;
    };
    auto issued = issuer.issue(kj::heapString(params.getRequest().asChars()), token, caller, proofs,
                               heldOf(params.getHeld()), viewOf(found));
    Activity::Use use(*activity, &Activity::calls);
    context.releaseParams();
    if (issued.spends) co_await spend(token, issued);
    co_await keep(kj::mv(issued.record));
    issued.names.enter();
    auto octets = issued.authority.size() + issued.certificate.size();
    auto results = context.getResults(capnp::MessageSize{octets / sizeof(capnp::word) + 16, 0});
    results.setCa(issued.authority.asBytes());
    results.setCertificate(issued.certificate.asBytes());
    activity->last = activity->timer.now();
  }

  kj::Promise<void> prove(ProveContext context) override {
    auto params = context.getParams();
    pki::Pem token(kj::str(params.getToken()));
    auto found = co_await shown(token);
    auto proof = issuer.prove(token, caller, heldOf(params.getHeld()), viewOf(found));
    context.releaseParams();
    auto results = context.getResults();
    results.setProof(proof);
    results.setAddress(caller.toString());
    auto own = issuer.serverAddresses();
    auto servers = results.initServers(own.size());
    for (auto i : kj::indices(own)) servers.set(i, own[i].toString());
    activity->last = activity->timer.now();
  }

 private:
  // Returns nullptr without a call to etcd if the text is not a join token.
  kj::Promise<kj::Maybe<ShownToken>> shown(kj::StringPtr token) {
    if (joinTokenId(token) == nullptr) co_return nullptr;
    Activity::Use use(*activity, &Activity::searches);
    co_return co_await tokens.find(token);
  }
  static kj::Maybe<const ShownToken&> viewOf(const kj::Maybe<ShownToken>& found) {
    KJ_IF_MAYBE (token, found) return *token;
    return nullptr;
  }
  // Runs before the record is written: a token that was spent for a certificate without a record is
  // spent for the same key at the next call.
  kj::Promise<void> spend(kj::StringPtr token, const Issuer::Issued& issued) {
    auto usedBy = kj::str(kj::strArray(issued.record.dnsNames, ","),
                          issued.record.dnsNames.empty() ? "" : " ", caller.toString());
    auto spent = co_await tokens.spend(token, issued.record.fingerprint, usedBy);
    issuer.requireSpent(issued, spent, caller);
  }

  Issuer& issuer;
  JoinTokens& tokens;
  Keep& keep;
  const Ip caller;
  kj::Own<Activity> activity;
};

}  // namespace

SessionParams openSession(Issuer& issuer, JoinTokens& tokens, Keep& keep, kj::Timer& timer,
                          const Peer& peer, kj::Duration idle) {
  auto caller =
      KJ_REQUIRE_NONNULL(Ip::parse(peer.address), "the peer has no IP address", peer.address);
  auto activity = kj::refcounted<Activity>(timer);
  auto until = idleFor(idle, kj::addRef(*activity));
  IdleSince idleSince = [activity = kj::addRef(*activity)] { return activity->idleSince(); };
  return {.bootstrap = kj::heap<TrustServer>(issuer, tokens, keep, caller, kj::mv(activity)),
          .until = kj::mv(until),
          .idleSince = kj::mv(idleSince)};
}

}  // namespace talos::trustd
