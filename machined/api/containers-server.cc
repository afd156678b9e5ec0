#include "machined/api/containers-server.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "machined/api/log-file-follower.h"
#include "machined/logs/log-since.h"
#include "machined/services/containers/container-images.h"
#include "machined/services/containers/container-list.h"

namespace talos::machined {
namespace {

class ContainersServer final : public rpc::Containers::Server {
 public:
  ContainersServer(Containerd& containerd, ContainersParts parts, kj::Own<ClientCalls> calls)
      : containerd(containerd), parts(kj::mv(parts)), calls(kj::mv(calls)) {}

  kj::Promise<void> list(ListContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto facts = co_await (context.getParams().getKubernetes() ? podContainers(containerd)
                                                               : systemContainers(containerd));
    fillList(context.getResults().initContainers(facts.size()), facts,
             [](auto out, const ContainerFact& fact) {
               out.setNamespace(fact.nameSpace);
               out.setId(fact.id);
               out.setImage(fact.image);
               out.setPid(fact.pid);
               out.setStatus(fact.status);
               out.setPodId(fact.pod);
               out.setRuntimeId(fact.key);
             });
  }

  kj::Promise<void> stats(StatsContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto uses = co_await podUse(containerd);
    fillList(context.getResults().initStats(uses.size()), uses,
             [](auto out, const ContainerUse& use) {
               out.setNamespace(use.nameSpace);
               out.setId(use.id);
               out.setMemoryUsage(use.memoryBytes);
               out.setCpuUsageNs(use.cpuNanoseconds);
               out.setPodId(use.pod);
             });
  }

  kj::Promise<void> restart(RestartContext context) override {
    auto slot = calls->enter(CallKind::kStream);  // a container may take its time to exit
    auto params = context.getParams();
    auto id = kj::str(params.getId());
    if (params.getKubernetes()) co_return co_await endPodContainer(containerd, kj::mv(id));
    if (!co_await endedService(id)) co_await endSystemContainer(containerd, kj::mv(id));
  }

  kj::Promise<void> logs(LogsContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    auto params = context.getParams();
    LineFile what{
        .follow = params.getFollow(),
        .tailLines = params.getTailLines(),
        .from = params.getFrom(),
        .filter = {.contains = kj::str(params.getContains()),
                   .since = dateOf(params.getSince(), kj::systemPreciseCalendarClock().now())}};
    auto sink = params.getSink();
    auto path = co_await podLogFile(containerd, kj::str(params.getId()));
    co_await readLineFile({parts.pool.of(calls->number()), parts.port, parts.timer}, kj::mv(path),
                          kj::mv(what), kj::mv(sink));
  }

  kj::Promise<void> images(ImagesContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto facts = co_await machined::images(containerd);
    fillList(context.getResults().initImages(facts.size()), facts,
             [](auto out, const ContainerImage& image) {
               out.setName(image.name);
               out.setDigest(image.digest);
               out.setSize(image.size);
               out.setCreated((image.created - kj::UNIX_EPOCH) / kj::NANOSECONDS);
             });
  }

  kj::Promise<void> pull(PullContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    co_await pullImage(containerd, kj::str(context.getParams().getImage()));
  }

 private:
  Containerd& containerd;
  ContainersParts parts;
  kj::Own<ClientCalls> calls;

  // Returns false if no service has this ID. A program that is a container on other nodes may be a
  // service on this one.
  kj::Promise<bool> endedService(kj::StringPtr id) {
    return parts.endService(id).then([]() { return true; },
                                     [](kj::Exception&& e) {
                                       if (kindOf(e) != ErrorKind::kNotFound)
                                         kj::throwFatalException(kj::mv(e));
                                       return false;
                                     });
  }
};

}  // namespace

rpc::Containers::Client serveContainers(Containerd& containerd, ContainersParts parts,
                                        kj::Own<ClientCalls> calls) {
  return kj::heap<ContainersServer>(containerd, kj::mv(parts), kj::mv(calls));
}

}  // namespace talos::machined
