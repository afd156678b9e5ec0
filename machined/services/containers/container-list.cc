#include "machined/services/containers/container-list.h"

#include <kj/debug.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <string>

#include "github.com/containerd/containerd/api/services/containers/v1/containers.pb.h"
#include "github.com/containerd/containerd/api/services/tasks/v1/tasks.pb.h"
#include "machined/services/containers/container-run.h"
#include "machined/services/containers/container-use.h"
#include "machined/services/containers/cri.pb.h"

namespace talos::machined {
namespace {

namespace cri = ::runtime::v1;
namespace tasks = ::containerd::services::tasks::v1;
namespace store = ::containerd::services::containers::v1;
using TaskStatus = ::containerd::v1::types::Status;

constexpr kj::StringPtr kListTasks = "/containerd.services.tasks.v1.Tasks/List"_kj,
                        kListStored = "/containerd.services.containers.v1.Containers/List"_kj,
                        kListPods = "/runtime.v1.RuntimeService/ListPodSandbox"_kj,
                        kPodStatus = "/runtime.v1.RuntimeService/PodSandboxStatus"_kj,
                        kStopPod = "/runtime.v1.RuntimeService/StopPodSandbox"_kj,
                        kListMembers = "/runtime.v1.RuntimeService/ListContainers"_kj,
                        kMemberStatus = "/runtime.v1.RuntimeService/ContainerStatus"_kj,
                        kListImages = "/runtime.v1.ImageService/ListImages"_kj,
                        kStopMember = "/runtime.v1.RuntimeService/StopContainer"_kj,
                        kMemberStats = "/runtime.v1.RuntimeService/ListContainerStats"_kj;

// Deadlines: the grace of the call, and the time to remove networks and mounts.
constexpr int64_t kRestartGrace = 10, kDownGrace = 30;  // s
constexpr auto kStopDeadline = 60 * kj::SECONDS;

kj::String text(const std::string& s) {
  return kj::heapString(s.data(), s.size());
}

kj::StringPtr nameOfTask(TaskStatus status) {
  switch (status) {
    case TaskStatus::CREATED:
      return "CREATED";
    case TaskStatus::RUNNING:
      return "RUNNING";
    case TaskStatus::STOPPED:
      return "STOPPED";
    case TaskStatus::PAUSED:
      return "PAUSED";
    case TaskStatus::PAUSING:
      return "PAUSING";
    default:
      return "UNKNOWN";
  }
}

kj::StringPtr nameOfState(cri::ContainerState state) {
  switch (state) {
    case cri::CONTAINER_CREATED:
      return "CONTAINER_CREATED";
    case cri::CONTAINER_RUNNING:
      return "CONTAINER_RUNNING";
    case cri::CONTAINER_EXITED:
      return "CONTAINER_EXITED";
    default:
      return "CONTAINER_UNKNOWN";
  }
}

using Processes = std::map<std::string, ::containerd::v1::types::Process>;

kj::Promise<Processes> tasksOf(Containerd& containerd, kj::StringPtr nameSpace) {
  auto answer = co_await containerd.call<tasks::ListTasksResponse>(kListTasks, nameSpace,
                                                                   tasks::ListTasksRequest());
  Processes result;
  for (auto& task : answer.tasks()) result[task.id()] = task;
  co_return result;
}

uint32_t pidIn(const Processes& processes, const std::string& id) {
  auto found = processes.find(id);
  return found == processes.end() ? 0 : found->second.pid();
}

kj::Promise<cri::ListPodSandboxResponse> readyPods(Containerd& containerd) {
  cri::ListPodSandboxRequest request;
  request.mutable_filter()->mutable_state()->set_state(cri::SANDBOX_READY);
  return containerd.call<cri::ListPodSandboxResponse>(kListPods, kPodNamespace, request);
}

kj::Promise<cri::ListContainersResponse> members(Containerd& containerd) {
  return containerd.call<cri::ListContainersResponse>(kListMembers, kPodNamespace,
                                                      cri::ListContainersRequest());
}

// Returns the names of images by ID, because the kubelet requests its containers' images by ID.
kj::Promise<std::map<std::string, std::string>> namesOfImages(Containerd& containerd) {
  auto listed = co_await containerd.call<cri::ListImagesResponse>(kListImages, kPodNamespace,
                                                                  cri::ListImagesRequest());
  std::map<std::string, std::string> names;
  for (auto& image : listed.images()) {
    if (image.repo_tags_size() > 0) {
      names[image.id()] = image.repo_tags(0);
    } else if (image.repo_digests_size() > 0) {
      names[image.id()] = image.repo_digests(0);
    }
  }
  co_return names;
}

// Returns the images of containers; the CRI does not report them for pods.
kj::Promise<std::map<std::string, std::string>> imagesOfStored(Containerd& containerd) {
  auto stored = co_await containerd.call<store::ListContainersResponse>(
      kListStored, kPodNamespace, store::ListContainersRequest());
  std::map<std::string, std::string> images;
  for (auto& container : stored.containers()) images[container.id()] = container.image();
  co_return images;
}

kj::String nameOfImage(const std::map<std::string, std::string>& names, const std::string& image) {
  auto found = names.find(image);
  return text(found == names.end() ? image : found->second);
}

// By text alone the pod "web-db" would come between "web" and its containers. Containers with the
// same ID are sorted newest first.
void sortByPod(kj::Vector<ContainerFact>& facts) {
  auto place = [](const ContainerFact& f) {
    return std::make_tuple(f.pod.asPtr(), !f.isPod, f.id.asPtr(), ~f.attempt);
  };
  std::sort(facts.begin(), facts.end(),
            [&](const ContainerFact& a, const ContainerFact& b) { return place(a) < place(b); });
}

kj::Promise<ContainerFact> findPod(Containerd& containerd, kj::String id) {
  auto facts = co_await podContainers(containerd);
  // A restarted container has several entries: the running one is taken, or else the newest.
  ContainerFact* found = nullptr;
  for (auto& fact : facts) {
    if (fact.id == id && (found == nullptr || fact.pid != 0)) found = &fact;
  }
  if (found == nullptr) {
    fail(ErrorKind::kNotFound,
         kj::str("pod or container \"", id, "\" is unknown; use an id of talosctl containers -k"));
  }
  co_return kj::mv(*found);
}

kj::Promise<void> stopPod(Containerd& containerd, std::string id) {
  cri::StopPodSandboxRequest request;
  request.set_pod_sandbox_id(id);
  return containerd
      .call<cri::StopPodSandboxResponse>(kStopPod, kPodNamespace, request, kStopDeadline)
      .ignoreResult();
}

kj::Promise<void> stopMember(Containerd& containerd, std::string id, int64_t grace) {
  cri::StopContainerRequest request;
  request.set_container_id(id);
  request.set_timeout(grace);
  return containerd
      .call<cri::StopContainerResponse>(kStopMember, kPodNamespace, request, kStopDeadline)
      .ignoreResult();
}

}  // namespace

kj::Promise<kj::Vector<ContainerFact>> systemContainers(Containerd& containerd) {
  auto running = co_await tasksOf(containerd, kSystemNamespace);
  auto stored = co_await containerd.call<store::ListContainersResponse>(
      kListStored, kSystemNamespace, store::ListContainersRequest());
  kj::Vector<ContainerFact> facts;
  for (auto& container : stored.containers()) {
    auto task = running.find(container.id());
    if (task == running.end()) continue;
    ContainerFact fact;
    fact.nameSpace = kj::str(kSystemNamespace);
    fact.id = text(container.id());
    fact.key = text(container.id());
    fact.image = text(container.image());
    fact.status = kj::str(nameOfTask(task->second.status()));
    fact.pid = task->second.pid();
    facts.add(kj::mv(fact));
  }
  sortByPod(facts);
  co_return facts;
}

kj::Promise<kj::Vector<ContainerFact>> podContainers(Containerd& containerd) {
  auto pods = co_await readyPods(containerd);
  auto inside = co_await members(containerd);
  auto running = co_await tasksOf(containerd, kPodNamespace);
  auto imageNames = co_await namesOfImages(containerd);
  auto made = co_await imagesOfStored(containerd);
  kj::Vector<ContainerFact> facts;
  std::map<std::string, kj::String> names;
  for (auto& pod : pods.items()) {
    auto name = kj::str(pod.metadata().namespace_().c_str(), "/", pod.metadata().name().c_str());
    ContainerFact fact;
    fact.nameSpace = kj::str(kPodNamespace);
    fact.id = kj::str(name);
    fact.pod = kj::str(name);
    fact.key = text(pod.id());
    fact.image = nameOfImage(imageNames, made[pod.id()]);
    fact.status = kj::str("SANDBOX_READY");
    fact.pid = pidIn(running, pod.id());
    fact.isPod = true;
    facts.add(kj::mv(fact));
    names.emplace(pod.id(), kj::mv(name));
  }
  for (auto& container : inside.containers()) {
    auto pod = names.find(container.pod_sandbox_id());
    if (pod == names.end()) continue;
    ContainerFact fact;
    fact.nameSpace = kj::str(kPodNamespace);
    fact.id = kj::str(pod->second, ":", container.metadata().name().c_str());
    fact.pod = kj::str(pod->second);
    fact.key = text(container.id());
    fact.image = nameOfImage(imageNames, container.image().image());
    fact.status = kj::str(nameOfState(container.state()));
    fact.pid = pidIn(running, container.id());
    fact.attempt = container.metadata().attempt();
    facts.add(kj::mv(fact));
  }
  sortByPod(facts);
  co_return facts;
}

kj::Promise<kj::Vector<ContainerUse>> podUse(Containerd& containerd) {
  auto facts = co_await podContainers(containerd);
  auto stats = co_await containerd.call<cri::ListContainerStatsResponse>(
      kMemberStats, kPodNamespace, cri::ListContainerStatsRequest());
  std::map<std::string, const cri::ContainerStats*> byKey;
  for (auto& one : stats.stats()) byKey[one.attributes().id()] = &one;
  kj::Vector<ContainerUse> result;
  size_t pod = 0;  // index of its row; the rows of its containers follow
  for (auto& fact : facts) {
    ContainerUse use;
    use.nameSpace = kj::mv(fact.nameSpace);
    use.id = kj::mv(fact.id);
    use.pod = kj::mv(fact.pod);
    if (!fact.isPod) {
      auto found = byKey.find(fact.key.cStr());
      if (found == byKey.end()) continue;
      use.memoryBytes = found->second->memory().working_set_bytes().value();
      use.cpuNanoseconds = found->second->cpu().usage_core_nano_seconds().value();
      if (use.memoryBytes + use.cpuNanoseconds == 0 && fact.pid != 0) {
        auto counted = groupUseOf(fact.pid);
        use.memoryBytes = counted.memoryBytes;
        use.cpuNanoseconds = counted.cpuNanoseconds;
      }
      result[pod].memoryBytes += use.memoryBytes;
      result[pod].cpuNanoseconds += use.cpuNanoseconds;
    } else {
      pod = result.size();
    }
    result.add(kj::mv(use));
  }
  co_return result;
}

kj::Promise<kj::String> podLogFile(Containerd& containerd, kj::String id) {
  auto fact = co_await findPod(containerd, kj::str(id));
  if (fact.isPod) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", id, "\" is a pod, which has no log; use one of its containers, as in \"", id,
                 ":name\""));
  }
  cri::ContainerStatusRequest request;
  request.set_container_id(fact.key.cStr());
  auto answer =
      co_await containerd.call<cri::ContainerStatusResponse>(kMemberStatus, kPodNamespace, request);
  if (answer.status().log_path().empty()) {
    fail(ErrorKind::kNotFound, kj::str("container \"", id, "\" has no log file"));
  }
  co_return text(answer.status().log_path());
}

kj::Promise<void> endSystemContainer(Containerd& containerd, kj::String id) {
  return signalContainer(containerd, kj::str(id), SIGTERM)
      .catch_([id = kj::mv(id)](kj::Exception&& e) {
        if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
        fail(ErrorKind::kNotFound,
             kj::str("container \"", id, "\" is unknown; use an id of talosctl containers"));
      });
}

kj::Promise<void> endPodContainer(Containerd& containerd, kj::String id) {
  auto fact = co_await findPod(containerd, kj::mv(id));
  std::string key(fact.key.cStr());
  co_await (fact.isPod ? stopPod(containerd, key) : stopMember(containerd, key, kRestartGrace));
}

namespace {

kj::Promise<void> stopWhole(Containerd& containerd, std::string pod, kj::String name,
                            const cri::ListContainersResponse& inside,
                            kj::Function<void(kj::StringPtr)>& failed) {
  auto reportFailure = [&failed, &name](kj::Exception&& e) {
    failed(kj::str("cannot stop the pod ", name, ": ", messageOf(e)));
  };
  kj::Vector<kj::Promise<void>> stops;
  for (auto& container : inside.containers()) {
    if (container.pod_sandbox_id() != pod || container.state() != cri::CONTAINER_RUNNING) continue;
    stops.add(stopMember(containerd, container.id(), kDownGrace).catch_(reportFailure));
  }
  co_await kj::joinPromises(stops.releaseAsArray());
  co_await stopPod(containerd, pod).catch_(reportFailure);
}

// Returns true if the pod has its own network; if that is unknown, the node's network is assumed.
kj::Promise<bool> hasNetwork(Containerd& containerd, std::string pod) {
  cri::PodSandboxStatusRequest request;
  request.set_pod_sandbox_id(pod);
  return containerd.call<cri::PodSandboxStatusResponse>(kPodStatus, kPodNamespace, request)
      .then(
          [](cri::PodSandboxStatusResponse answer) {
            return answer.status().linux().namespaces().options().network() != cri::NODE;
          },
          [](kj::Exception&&) { return false; });
}

}  // namespace

kj::Promise<void> stopPods(Containerd& containerd, kj::Function<void(kj::StringPtr)> failed) {
  kj::Maybe<cri::ListPodSandboxResponse> listed;
  kj::Maybe<kj::Exception> wrong;
  co_await readyPods(containerd)
      .then([&](cri::ListPodSandboxResponse answer) { listed = kj::mv(answer); },
            [&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    // Without containerd no call can succeed; process 1 ends the remaining processes.
    if (kindOf(*e) == ErrorKind::kUnavailable) co_return;
    kj::throwFatalException(kj::mv(*e));
  }
  auto& pods = KJ_ASSERT_NONNULL(listed);
  auto inside = co_await members(containerd);
  kj::Vector<kj::Promise<bool>> checks;
  for (auto& pod : pods.items()) checks.add(hasNetwork(containerd, pod.id()));
  auto networked = co_await kj::joinPromises(checks.releaseAsArray());
  for (bool withNetwork : {true, false}) {
    kj::Vector<kj::Promise<void>> stops;
    for (int i = 0; i < pods.items_size(); ++i) {
      if (networked[i] != withNetwork) continue;
      auto& pod = pods.items(i);
      auto name = kj::str(pod.metadata().namespace_().c_str(), "/", pod.metadata().name().c_str());
      stops.add(stopWhole(containerd, pod.id(), kj::mv(name), inside, failed));
    }
    co_await kj::joinPromises(stops.releaseAsArray());
  }
}

}  // namespace talos::machined
