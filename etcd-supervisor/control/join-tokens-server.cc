#include "etcd-supervisor/control/join-tokens-server.h"

namespace talos::supervisor {
namespace {

class JoinTokensServer final : public rpc::JoinTokens::Server {
 public:
  explicit JoinTokensServer(JoinTokenBook& tokens) : tokens(tokens) {}

 protected:
  kj::Promise<void> find(FindContext context) override {
    auto params = context.getParams();
    return tokens.find(params.getId(), [context](auto record, int64_t now) mutable {
      fillFound(context.getResults().initToken(), record, context.getParams().getDigest(), now);
    });
  }
  kj::Promise<void> spend(SpendContext context) override {
    auto params = context.getParams();
    return tokens.spend(params.getId(), params.getDigest(), params.getFingerprint(),
                        params.getUsedBy(), [context](auto record, int64_t now) mutable {
                          fillFound(context.getResults().initToken(), record,
                                    context.getParams().getDigest(), now);
                        });
  }

 private:
  JoinTokenBook& tokens;
};

}  // namespace

rpc::JoinTokens::Client serveJoinTokens(JoinTokenBook& tokens) {
  return kj::heap<JoinTokensServer>(tokens);
}

}  // namespace talos::supervisor
