#include "machined/api/containers-server.h"

#include "common/base/error.h"
#include "machined/api/line-file.h"
#include "machined/containers/container-facts.h"
#include "machined/containers/container-images.h"

namespace talos::machined {
namespace {

class ContainersServer final : public rpc::Containers::Server {
 public:
  ContainersServer(Containerd& containerd, ContainersParts parts, kj::Own<ClientCalls> calls)
      : containerd(containerd), parts(parts), calls(kj::mv(calls)) {}

  kj::Promise<void> list(ListContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto facts = co_await (context.getParams().getKubernetes() ? podContainers(containerd)
                                                               : systemContainers(containerd));
    auto out = context.getResults().initContainers(facts.size());
    for (size_t i = 0; i < facts.size(); ++i) {
      out[i].setNamespace(facts[i].nameSpace);
      out[i].setId(facts[i].id);
      out[i].setImage(facts[i].image);
      out[i].setPid(facts[i].pid);
      out[i].setStatus(facts[i].status);
      out[i].setPodId(facts[i].pod);
    }
  }

  kj::Promise<void> stats(StatsContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto uses = co_await podUse(containerd);
    auto out = context.getResults().initStats(uses.size());
    for (size_t i = 0; i < uses.size(); ++i) {
      out[i].setNamespace(uses[i].nameSpace);
      out[i].setId(uses[i].id);
      out[i].setMemoryUsage(uses[i].memoryBytes);
      out[i].setCpuUsageNs(uses[i].cpuNanoseconds);
      out[i].setPodId(uses[i].pod);
    }
  }

  kj::Promise<void> restart(RestartContext context) override {
    auto slot = calls->enter(CallKind::kStream);  // a container may take its time to exit
    auto params = context.getParams();
    auto id = kj::str(params.getId());
    co_await (params.getKubernetes() ? endPodContainer(containerd, kj::mv(id))
                                     : endSystemContainer(containerd, kj::mv(id)));
  }

  kj::Promise<void> logs(LogsContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    auto params = context.getParams();
    LineFile what{
        .follow = params.getFollow(), .tailLines = params.getTailLines(), .from = params.getFrom()};
    auto sink = params.getSink();
    auto path = co_await podLogFile(containerd, kj::str(params.getId()));
    co_await readLineFile({parts.pool.of(calls->number()), parts.port, parts.timer}, kj::mv(path),
                          what, kj::mv(sink));
  }

  kj::Promise<void> images(ImagesContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto facts = co_await machined::images(containerd);
    auto out = context.getResults().initImages(facts.size());
    for (size_t i = 0; i < facts.size(); ++i) {
      out[i].setName(facts[i].name);
      out[i].setDigest(facts[i].digest);
      out[i].setSize(facts[i].size);
      out[i].setCreated((facts[i].created - kj::UNIX_EPOCH) / kj::NANOSECONDS);
    }
  }

  kj::Promise<void> pull(PullContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    co_await pullImage(containerd, kj::str(context.getParams().getImage()));
  }

 private:
  Containerd& containerd;
  ContainersParts parts;
  kj::Own<ClientCalls> calls;
};

}  // namespace

rpc::Containers::Client serveContainers(Containerd& containerd, ContainersParts parts,
                                        kj::Own<ClientCalls> calls) {
  return kj::heap<ContainersServer>(containerd, parts, kj::mv(calls));
}

}  // namespace talos::machined
