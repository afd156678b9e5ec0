#include "kubed/nodes/kubed-server.h"

namespace talos::kubed {
namespace {

class KubedServer final : public rpc::Kubed::Server {
 public:
  KubedServer(rpc::Kubernetes::Client served, RequestTrace& trace)
      : served(kj::mv(served)), trace(trace) {}

  kj::Promise<void> kubernetes(KubernetesContext context) override {
    context.getResults().setKubernetes(
        trace.traced<rpc::Kubernetes>(served, context.getParams().getRequest()));
    return kj::READY_NOW;
  }

 private:
  rpc::Kubernetes::Client served;
  RequestTrace& trace;
};

}  // namespace

rpc::Kubed::Client serveKubed(rpc::Kubernetes::Client kubernetes, RequestTrace& trace) {
  return kj::heap<KubedServer>(kj::mv(kubernetes), trace);
}

}  // namespace talos::kubed
