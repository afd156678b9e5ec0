#include "common/kube/survey.h"

#include <algorithm>

#include "common/base/date.h"
#include "common/base/fill-list.h"
#include "common/kube/drain-plan.h"
#include "common/kube/node-object.h"
#include "common/net/ip.h"
#include "common/text/texts.h"

namespace talos::kube {
namespace {

constexpr kj::StringPtr kSystem = "kube-system"_kj;
// Bootkube's, on the copies of its pods.
constexpr kj::StringPtr kSecretsVersion = "talos.dev/secrets-version"_kj;
constexpr kj::StringPtr kCheckpointAnnotation = "checkpointer.alpha.coreos.com/checkpoint-of"_kj;
constexpr kj::StringPtr kSliceOfLabel = "kubernetes.io/service-name"_kj;
constexpr size_t kMostInList = 64;  // addresses of a node, taints, ends of a service

// Returns the first bytes of the text, as whole characters.
kj::String cut(kj::StringPtr text) {
  if (text.size() <= kMostSurveyText) return kj::str(text);
  size_t end = kMostSurveyText;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return kj::str(text.slice(0, end), "…");
}

kj::String cutAt(const Json& value, JsonPath path) {
  return cut(textAt(value, path));
}

uint32_t countAt(const Json& value, JsonPath path, int64_t otherwise = 0) {
  auto number = numberAt(value, path, otherwise);
  return static_cast<uint32_t>(kj::max(int64_t(0), kj::min(number, int64_t(UINT32_MAX))));
}

// Parses Kubernetes' times, also with a fraction of a second; 0 if unknown.
int64_t secondsOf(kj::StringPtr time) {
  constexpr size_t kWhole = 19;  // 2026-11-20T12:07:35
  if (time.size() <= kWhole) return 0;
  KJ_IF_MAYBE (date, parseDate(kj::str(time.slice(0, kWhole), "Z"))) {
    return (*date - kj::UNIX_EPOCH) / kj::SECONDS;
  }
  return 0;
}

kj::Maybe<const Json&> conditionOf(const Json& object, kj::StringPtr type) {
  for (auto condition : itemsAt(object, {"status", "conditions"})) {
    if (textAt(*condition, {"type"}) == type) return *condition;
  }
  return nullptr;
}

bool isTrue(const Json& condition) {
  return textAt(condition, {"status"}) == "True";
}

bool hasCondition(const Json& object, kj::StringPtr type) {
  return conditionOf(object, type)
      .map([](const Json& found) { return isTrue(found); })
      .orDefault(false);
}

bool has(const Json& object, JsonPath path) {
  return find(object, path) != nullptr;
}

kj::Vector<kj::String> addressesOf(const Json& node) {
  auto addresses = internalAddressesOf(node, kMostInList);
  for (auto& address : addresses) address = cut(address);
  return addresses;
}

kj::Vector<kj::String> taintsOf(const Json& node) {
  kj::Vector<kj::String> taints;
  for (auto taint : itemsAt(node, {"spec", "taints"})) {
    if (taints.size() == kMostInList) break;
    auto value = textAt(*taint, {"value"});
    taints.add(cut(kj::str(textAt(*taint, {"key"}), value.size() > 0 ? "=" : "", value, ":",
                           textAt(*taint, {"effect"}))));
  }
  return taints;
}

// Problems that the kubelet or the network plugin reports.
kj::Vector<kj::String> pressuresOf(const Json& node) {
  kj::Vector<kj::String> pressures;
  for (auto condition : itemsAt(node, {"status", "conditions"})) {
    auto type = textAt(*condition, {"type"});
    if (type == "Ready" || !isTrue(*condition) || pressures.size() == kMostInList) continue;
    auto message = textAt(*condition, {"message"});
    pressures.add(cut(kj::str(type, message.size() > 0 ? ": " : "", message)));
  }
  return pressures;
}

kj::Vector<kj::String> textsAt(const Json& object, JsonPath list) {
  kj::Vector<kj::String> texts;
  for (auto item : itemsAt(object, list)) {
    if (item->is_string() && texts.size() < kMostInList) texts.add(cutAt(*item, {}));
  }
  return texts;
}

kj::Vector<kj::String> podAddresses(const Json& pod) {
  kj::Vector<kj::String> addresses;
  for (auto address : itemsAt(pod, {"status", "podIPs"})) {
    if (addresses.size() < kMostInList) addresses.add(cutAt(*address, {"ip"}));
  }
  auto only = textAt(pod, {"status", "podIP"});
  if (addresses.empty() && only.size() > 0) addresses.add(cut(only));
  return addresses;
}

kj::String ownerOf(const Json& object) {
  for (auto owner : itemsAt(object, {"metadata", "ownerReferences"})) {
    if (!flagAt(*owner, {"controller"})) continue;
    return cut(kj::str(textAt(*owner, {"kind"}), "/", textAt(*owner, {"name"})));
  }
  return kj::str();
}

// Returns why a container has exited: "exit status 1", and its termination message.
kj::String endOf(const Json& terminated) {
  auto message = textAt(terminated, {"message"});
  auto signal = numberAt(terminated, {"signal"});
  auto how = signal > 0 ? kj::str("signal ", signal)
                        : kj::str("exit status ", numberAt(terminated, {"exitCode"}));
  return kj::str(how, message.size() > 0 ? ": " : "", message);
}

// Sets why a container is not as it should be; returns false if nothing is known against it.
bool setContainerReason(const Json& status, bool init, rpc::Survey::Pod::Builder out) {
  auto set = [&](kj::StringPtr reason, kj::StringPtr message) {
    out.setReason(cut(reason));
    out.setMessage(cut(message));
    out.setContainer(cutAt(status, {"name"}));
    return true;
  };
  KJ_IF_MAYBE (waiting, find(status, {"state", "waiting"})) {
    auto reason = textAt(*waiting, {"reason"});
    if (reason == "PodInitializing") return false;  // another container is reported instead
    auto message = kj::str(textAt(*waiting, {"message"}));
    KJ_IF_MAYBE (last, find(status, {"lastState", "terminated"})) {
      message = kj::str(message, message.size() > 0 ? "; " : "", "ended with ", endOf(*last));
    }
    return set(reason, message);
  }
  KJ_IF_MAYBE (ended, find(status, {"state", "terminated"})) {
    if (init && numberAt(*ended, {"exitCode"}, 1) == 0) return false;
    return set(textAt(*ended, {"reason"}), endOf(*ended));
  }
  if (init || flagAt(status, {"ready"}) || !has(status, {"state", "running"})) return false;
  return set("NotReady", "its readiness probe fails");
}

void setReason(const Json& pod, rpc::Survey::Pod::Builder out) {
  auto set = [&](const Json& from) {
    out.setReason(cutAt(from, {"reason"}));
    out.setMessage(cutAt(from, {"message"}));
  };
  KJ_IF_MAYBE (status, find(pod, {"status"})) {
    // Evicted, or its node is lost.
    if (textAt(*status, {"reason"}).size() > 0) return set(*status);
  }
  KJ_IF_MAYBE (scheduled, conditionOf(pod, "PodScheduled")) {
    if (!isTrue(*scheduled)) return set(*scheduled);
  }
  for (auto status : itemsAt(pod, {"status", "initContainerStatuses"})) {
    if (setContainerReason(*status, true, out)) return;
  }
  for (auto status : itemsAt(pod, {"status", "containerStatuses"})) {
    if (setContainerReason(*status, false, out)) return;
  }
  KJ_IF_MAYBE (ready, conditionOf(pod, "Ready")) set(*ready);
}

uint32_t restartsOf(const Json& pod) {
  uint64_t restarts = 0;
  for (auto list : {"initContainerStatuses"_kj, "containerStatuses"_kj}) {
    for (auto status : itemsAt(pod, {"status", list}))
      restarts += countAt(*status, {"restartCount"});
  }
  return static_cast<uint32_t>(kj::min(restarts, uint64_t(UINT32_MAX)));
}

// Returns how the survey names an object in an event: "Pod kube-system/coredns-1".
kj::String objectOf(kj::StringPtr kind, kj::StringPtr space, kj::StringPtr name) {
  return cut(kj::str(kind, " ", space, space.size() > 0 ? "/" : "", name));
}

void takePod(const Json& pod, bool ready, rpc::Survey::Pod::Builder out) {
  out.setNamespace(cutAt(pod, {"metadata", "namespace"}));
  out.setName(cutAt(pod, {"metadata", "name"}));
  out.setNode(cutAt(pod, {"spec", "nodeName"}));
  out.setApp(cutAt(pod, {"metadata", "labels", "k8s-app"}));
  out.setComponent(cutAt(pod, {"metadata", "labels", "component"}));
  out.setPhase(cutAt(pod, {"status", "phase"}));
  out.setReady(ready);
  out.setMirror(has(pod, {"metadata", "annotations", kMirrorAnnotation}));
  out.setCheckpoint(has(pod, {"metadata", "annotations", kCheckpointAnnotation}));
  out.setOwner(ownerOf(pod));
  out.setRestarts(restartsOf(pod));
  out.setDeleted(textAt(pod, {"metadata", "deletionTimestamp"}).size() > 0);
  out.setSecretsVersion(cutAt(pod, {"metadata", "annotations", kSecretsVersion}));
  auto addresses = podAddresses(pod);
  fillTexts(out.initAddresses(addresses.size()), addresses);
  if (!ready) setReason(pod, out);
}

struct PodCounts {
  uint32_t desired, ready;
};
PodCounts countsOf(kj::StringPtr kind, const Json& workload) {
  if (kind == "DaemonSet") {
    return {countAt(workload, {"status", "desiredNumberScheduled"}),
            countAt(workload, {"status", "numberReady"})};
  }
  return {countAt(workload, {"spec", "replicas"}, 1),
          countAt(workload, {"status", "readyReplicas"})};
}

// Returns why its pods cannot be made.
kj::String complaintOf(const Json& workload) {
  KJ_IF_MAYBE (failure, conditionOf(workload, "ReplicaFailure")) {
    if (isTrue(*failure)) return cutAt(*failure, {"message"});
  }
  KJ_IF_MAYBE (progress, conditionOf(workload, "Progressing")) {
    if (textAt(*progress, {"status"}) == "False") return cutAt(*progress, {"message"});
  }
  return kj::str();
}

// Returns the time of an event, whose writer decides which of these times it has.
int64_t timeOf(const Json& event) {
  kj::StringPtr times[] = {textAt(event, {"series", "lastObservedTime"}),
                           textAt(event, {"lastTimestamp"}), textAt(event, {"eventTime"}),
                           textAt(event, {"firstTimestamp"}),
                           textAt(event, {"metadata", "creationTimestamp"})};
  for (auto time : times) {
    auto seconds = secondsOf(time);
    if (seconds != 0) return seconds;
  }
  return 0;
}

kj::Vector<uint16_t> portsIn(const Json& object) {
  kj::Vector<uint16_t> ports;
  for (auto item : itemsAt(object, {"ports"})) {
    auto number = numberAt(*item, {"port"});
    bool known = number < 1 || number > 65535 || ports.size() == kMostInList;
    for (auto port : ports) known = known || port == number;
    if (!known) ports.add(static_cast<uint16_t>(number));
  }
  return ports;
}

void addEnds(kj::Vector<kj::String>& ends, kj::StringPtr address,
             kj::ArrayPtr<const uint16_t> ports) {
  for (auto port : ports) {
    if (ends.size() < kMostInList) addOnce(ends, cut(hostInUrl(address, port)));
  }
}

template <typename T, typename Less>
void sortRows(kj::Vector<capnp::Orphan<T>>& rows, Less less) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](auto& a, auto& b) { return less(a.getReader(), b.getReader()); });
}

}  // namespace

template <typename T>
kj::Maybe<typename T::Builder> SurveyObjects::addRow(Rows<T>& rows, size_t most) {
  if (rows.size() == most) {
    ++leftOut;
    return nullptr;
  }
  return rows.add(scratch.getOrphanage().newOrphan<T>()).get();
}

void SurveyObjects::addVersion(const Json& given) {
  version = cutAt(given, {"gitVersion"});
}

void SurveyObjects::addNode(const Json& node) {
  auto row = addRow(nodes, kMostSurveyNodes);
  KJ_IF_MAYBE (out, row) {
    out->setName(cutAt(node, {"metadata", "name"}));
    auto addresses = addressesOf(node);
    fillTexts(out->initAddresses(addresses.size()), addresses);
    KJ_IF_MAYBE (ready, conditionOf(node, "Ready")) {
      out->setReady(isTrue(*ready));
      out->setReason(cutAt(*ready, {"reason"}));
      out->setMessage(cutAt(*ready, {"message"}));
      out->setSince(secondsOf(textAt(*ready, {"lastTransitionTime"})));
    }
    out->setControlPlane(isControlPlane(node));
    out->setUnschedulable(flagAt(node, {"spec", "unschedulable"}));
    auto taints = taintsOf(node);
    fillTexts(out->initTaints(taints.size()), taints);
    auto pressures = pressuresOf(node);
    fillTexts(out->initPressures(pressures.size()), pressures);
    auto cidrs = textsAt(node, {"spec", "podCIDRs"});
    if (cidrs.empty() && textAt(node, {"spec", "podCIDR"}).size() > 0) {
      cidrs.add(cutAt(node, {"spec", "podCIDR"}));
    }
    fillTexts(out->initPodCidrs(cidrs.size()), cidrs);
    out->setKubeletVersion(cutAt(node, {"status", "nodeInfo", "kubeletVersion"}));
  }
}

void SurveyObjects::addWorkload(kj::StringPtr kind, const Json& workload) {
  auto row = addRow(workloads, kMostSurveyWorkloads);
  KJ_IF_MAYBE (out, row) {
    out->setKind(kind);
    out->setName(cutAt(workload, {"metadata", "name"}));
    out->setApp(cutAt(workload, {"metadata", "labels", "k8s-app"}));
    auto counts = countsOf(kind, workload);
    out->setDesired(counts.desired);
    out->setReady(counts.ready);
    out->setMessage(complaintOf(workload));
  }
}

void SurveyObjects::addPod(const Json& pod) {
  budgets.addPod(pod);
  bool ready = hasCondition(pod, "Ready");
  if (textAt(pod, {"metadata", "namespace"}) == kSystem) {
    auto row = addRow(systemPods, kMostSystemPods);
    KJ_IF_MAYBE (out, row) showPod(pod, ready, *out);
    return;
  }
  if (ready || textAt(pod, {"status", "phase"}) == "Succeeded") return;
  if (otherPods.size() == kMostOtherPods) {
    ++unreadPods;
    return;
  }
  showPod(pod, ready, otherPods.add(scratch.getOrphanage().newOrphan<rpc::Survey::Pod>()).get());
}

void SurveyObjects::showPod(const Json& pod, bool ready, rpc::Survey::Pod::Builder out) {
  takePod(pod, ready, out);
  created[objectOf("Pod", out.asReader().getNamespace(), out.asReader().getName()).cStr()] =
      secondsOf(textAt(pod, {"metadata", "creationTimestamp"}));
}

bool SurveyObjects::isOfEarlierPod(rpc::Survey::Event::Reader event) const {
  auto pod = created.find(event.getObject().cStr());
  return pod != created.end() && event.getTime() < pod->second;
}

void SurveyObjects::addEvent(const Json& event) {
  if (textAt(event, {"type"}) != "Warning") return;
  auto time = timeOf(event);
  auto newerFirst = [](auto a, auto b) { return a.getTime() > b.getTime(); };
  if (events.size() == kMostSurveyEvents) {
    if (events.back().getReader().getTime() >= time) return;
    events.removeLast();
  }
  auto out = events.add(scratch.getOrphanage().newOrphan<rpc::Survey::Event>()).get();
  out.setTime(time);
  KJ_IF_MAYBE (about, find(event, {"involvedObject"})) {
    out.setObject(objectOf(textAt(*about, {"kind"}), textAt(*about, {"namespace"}),
                           textAt(*about, {"name"})));
  }
  out.setReason(cutAt(event, {"reason"}));
  out.setMessage(cutAt(event, {"message"}));
  auto series = countAt(event, {"series", "count"}, 1);
  out.setCount(kj::max(countAt(event, {"count"}, 1), series));
  sortRows(events, newerFirst);
}

SurveyObjects::ServiceEnds& SurveyObjects::endsOf(kj::String service) {
  for (auto& one : services) {
    if (one.service == service) return one;
  }
  auto& fresh = services.add();
  fresh.service = kj::mv(service);
  return fresh;
}

void SurveyObjects::addService(const Json& service) {
  endsOf(cut(nameOf(service))).clusterIp = cutAt(service, {"spec", "clusterIP"});
}

void SurveyObjects::addEndpoints(const Json& endpoints) {
  auto& ends = endsOf(cut(nameOf(endpoints)));
  for (auto subset : itemsAt(endpoints, {"subsets"})) {
    auto ports = portsIn(*subset);
    for (auto address : itemsAt(*subset, {"addresses"})) {
      addEnds(ends.ready, textAt(*address, {"ip"}), ports);
    }
    for (auto address : itemsAt(*subset, {"notReadyAddresses"})) {
      addEnds(ends.notReady, textAt(*address, {"ip"}), ports);
    }
  }
}

void SurveyObjects::addEndpointSlice(const Json& slice) {
  auto& ends = endsOf(cut(kj::str(textAt(slice, {"metadata", "namespace"}), "/",
                                  textAt(slice, {"metadata", "labels", kSliceOfLabel}))));
  auto ports = portsIn(slice);
  for (auto endpoint : itemsAt(slice, {"endpoints"})) {
    // Absent means that it is not known, which counts as ready.
    bool ready =
        !has(*endpoint, {"conditions", "ready"}) || flagAt(*endpoint, {"conditions", "ready"});
    for (auto& address : textsAt(*endpoint, {"addresses"})) {
      addEnds(ready ? ends.ready : ends.notReady, address, ports);
    }
  }
}

void SurveyObjects::addProblem(kj::StringPtr text) {
  if (problems.size() < kMostInList) problems.add(cut(text));
}

void SurveyObjects::fill(rpc::Survey::Builder out) {
  if (leftOut > 0) {
    addProblem(kj::str(
        leftOut, " nodes, workloads or pods of kube-system were left out: there are too many"));
    leftOut = 0;
  }
  if (budgets.leftOut() > 0) {
    addProblem(
        kj::str(budgets.leftOut(), " PodDisruptionBudgets were left out: there are too many"));
  }
  auto byName = [](auto a, auto b) { return a.getName() < b.getName(); };
  sortRows(nodes, byName);
  sortRows(workloads, [&](auto a, auto b) {
    return a.getKind() == b.getKind() ? a.getName() < b.getName() : a.getKind() < b.getKind();
  });
  auto byPlace = [](auto a, auto b) {
    return a.getNamespace() == b.getNamespace() ? a.getName() < b.getName()
                                                : a.getNamespace() < b.getNamespace();
  };
  sortRows(systemPods, byPlace);
  sortRows(otherPods, byPlace);
  auto copy = [](auto list, auto& rows, size_t from = 0) {
    for (auto i : kj::indices(rows)) list.setWithCaveats(from + i, rows[i].getReader());
  };
  out.setVersion(version);
  copy(out.initNodes(nodes.size()), nodes);
  copy(out.initWorkloads(workloads.size()), workloads);
  auto pods = out.initPods(systemPods.size() + otherPods.size());
  copy(pods, systemPods);
  copy(pods, otherPods, systemPods.size());
  Rows<rpc::Survey::Event> shown;
  for (auto& event : events) {
    if (!isOfEarlierPod(event.getReader())) shown.add(kj::mv(event));
  }
  events = kj::mv(shown);
  copy(out.initWarnings(events.size()), events);
  fillList(out.initEndpoints(services.size()), services, [](auto row, ServiceEnds& ends) {
    row.setService(ends.service);
    row.setClusterIp(ends.clusterIp);
    fillTexts(row.initReady(ends.ready.size()), ends.ready);
    fillTexts(row.initNotReady(ends.notReady.size()), ends.notReady);
  });
  budgets.fill(out.initBudgets(static_cast<unsigned>(budgets.size())));
  fillTexts(out.initProblems(problems.size()), problems);
  out.setUnreadPods(unreadPods);
}

}  // namespace talos::kube
