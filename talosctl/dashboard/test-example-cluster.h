// A cluster of three control-plane nodes and two workers for tests and the pictures in
// docs/screens. Most of it is healthy; one node is being upgraded, one worker is silent, and a disk
// of the other worker is nearly full.
#pragma once

#include <capnp/message.h>

#include <cmath>

#include "rpc/dashboard.capnp.h"

namespace talos::talosctl::dashboard {

class ExampleCluster {
 public:
  ExampleCluster() {
    auto root = message.initRoot<rpc::Dashboard>();
    root.setTaken("2026-11-26T12:00:00Z");
    root.setContext("production");
    root.setEndpoint("10.5.0.2");
    auto nodes = root.initNodes(5);
    for (unsigned i = 0; i < 5; ++i) fill(nodes[i], i);
    addFaults(nodes);
    addMembers(root);
    addSurvey(root.initSurvey());
    addCause(root.initDiagnosis());
  }
  rpc::Dashboard::Reader get() { return message.getRoot<rpc::Dashboard>().asReader(); }
  rpc::Dashboard::Builder change() { return message.getRoot<rpc::Dashboard>(); }

 private:
  capnp::MallocMessageBuilder message;
  static constexpr kj::StringPtr kNames[] = {"master-1"_kj, "master-2"_kj, "master-3"_kj,
                                             "worker-1"_kj, "worker-2"_kj};
  static constexpr uint64_t kGigabyte = 1'000'000'000;

  static void addService(rpc::Service::Builder service, kj::StringPtr id, unsigned pid,
                         bool checked) {
    service.setId(id);
    service.setState(rpc::ServiceState::RUNNING);
    service.setPid(int32_t(pid));
    service.setStarts(1);
    service.setChecked(checked);
    auto health = service.initHealth();
    health.setUnknown(!checked);
    health.setHealthy(checked);
    auto event = service.initEvents(1)[0];
    event.setMessage(checked ? "Health check successful" : "Started");
    event.setState(rpc::ServiceState::RUNNING);
  }

  static void addServices(rpc::DashboardNode::Builder node, bool controlPlane) {
    constexpr kj::StringPtr kAll[] = {"apid"_kj,     "cri"_kj,  "kubelet"_kj,         "machined"_kj,
                                      "networkd"_kj, "etcd"_kj, "etcd-supervisor"_kj, "kubed"_kj,
                                      "trustd"_kj,   "vipd"_kj};
    auto count = controlPlane ? 10u : 5u;
    auto services = node.initServices(count);
    for (unsigned i = 0; i < count; ++i) {
      addService(services[i], kAll[i], 100 + i, kAll[i] != "machined" && kAll[i] != "vipd");
    }
  }

  // Adds a minute in which the load rises and falls.
  static void addSamples(rpc::DashboardNode::Builder node, unsigned number) {
    auto samples = node.initSamples(60);
    for (unsigned i = 0; i < 60; ++i) {
      auto sample = samples[i];
      auto wave = 1 + std::sin((i + 7.0 * number) / 9.0);
      sample.setUptimeMs(1000 * (i + 1));
      sample.setCpuBusy(uint16_t(100 + 200 * wave + 20 * number));
      sample.setCpuSystem(60);
      sample.setCpuIowait(4);
      sample.setLoad1(float(0.5 + wave / 2));
      sample.setMemoryTotal(16 * kGigabyte);
      sample.setMemoryAvailable(uint64_t((10 - 0.4 * wave - number) * kGigabyte));
      sample.setDiskWritten(uint64_t(wave * 4'000'000));
      sample.setDiskRead(200'000);
      sample.setNetworkReceived(uint64_t(wave * 12'000'000));
      sample.setNetworkSent(uint64_t(wave * 3'000'000));
      sample.setPressureCpu(2.5);
    }
  }

  static void addMount(rpc::Mount::Builder mount, kj::StringPtr device, kj::StringPtr place,
                       uint64_t size, uint64_t used) {
    mount.setFilesystem(device);
    mount.setMountedOn(place);
    mount.setSize(size);
    mount.setFree(size - used);
    mount.setAvailable(size - used);
    mount.setType("xfs");
  }

  static void addLinks(rpc::DashboardNode::Builder node, unsigned number) {
    auto links = node.initLinks(2);
    auto lo = links[0];
    lo.setName("lo");
    lo.setUp(true);
    lo.initAddresses(1).set(0, "127.0.0.1/8");
    auto link = links[1];
    link.setName("bond0");
    link.setKind("bond");
    link.setUp(true);
    link.setMtu(9000);
    link.setReceivedRate(12'400'000 + 1'000'000 * number);
    link.setSentRate(3'100'000);
    link.setRatesKnown(true);
    auto addresses = link.initAddresses(number == 1 ? 2 : 1);
    addresses.set(0, kj::str("10.5.0.", number + 2, "/24"));
    if (number == 1) addresses.set(1, "10.5.0.50/32");
  }

  static void addDetails(rpc::DashboardNode::Builder node) {
    auto cores = node.initCores(8);
    for (unsigned i = 0; i < 8; ++i) {
      cores[i].setName(kj::str("cpu", i));
      cores[i].setBusy(uint16_t(120 + 90 * i));
      cores[i].setBusyKnown(true);
    }
    auto disk = node.initDisks(1)[0];
    disk.setName("nvme0n1");
    disk.setReadRate(210'000);
    disk.setWrittenRate(5'200'000);
    disk.setBusy(83);
    disk.setRatesKnown(true);
    struct Group {
      kj::StringPtr path;
      uint32_t cpu;
      uint64_t memory;
    };
    constexpr Group kGroups[] = {
        {"/"_kj, 2810, 9 * kGigabyte},        {"kubepods"_kj, 2210, 7 * kGigabyte},
        {"system"_kj, 590, 1'400'000'000},    {"system/apid"_kj, 11, 16'000'000},
        {"system/etcd"_kj, 212, 190'000'000}, {"system/kubelet"_kj, 340, 110'000'000}};
    auto groups = node.initGroups(6);
    for (unsigned i = 0; i < 6; ++i) {
      groups[i].setPath(kGroups[i].path);
      groups[i].setCpu(kGroups[i].cpu);
      groups[i].setCpuKnown(true);
      groups[i].setMemory(kGroups[i].memory);
      groups[i].setProcesses(i < 2 ? 0 : 1);
    }
    auto processes = node.initProcesses(3);
    constexpr kj::StringPtr kCommands[] = {"/usr/bin/etcd --name=master-1"_kj,
                                           "/usr/local/bin/kubelet --config=…"_kj,
                                           "/usr/bin/machined"_kj};
    for (unsigned i = 0; i < 3; ++i) {
      processes[i].setPid(int32_t(40 + i));
      processes[i].setCommand(kCommands[i]);
      processes[i].setCpu(300 - 140 * i);
      processes[i].setCpuKnown(true);
      processes[i].setMemory((i + 1) * 90'000'000);
      processes[i].setThreads(9);
      processes[i].setState("S");
    }
    auto events = node.initEvents(2);
    events[0].setTime(1'795'694'000'000'000'000);
    events[0].setSource("etcd");
    events[0].setMessage("RUNNING: Health check successful");
    events[1].setTime(1'795'694'100'000'000'000);
    events[1].setSource("boot");
    events[1].setMessage("STOP");
    auto memory = node.initMemory(5);
    struct Field {
      kj::StringPtr name;
      uint64_t value;
    };
    constexpr Field kFields[] = {{"MemTotal"_kj, 15'625'000},
                                 {"MemAvailable"_kj, 9'200'000},
                                 {"AnonPages"_kj, 4'100'000},
                                 {"Cached"_kj, 3'900'000},
                                 {"MemFree"_kj, 6'800'000}};
    for (unsigned i = 0; i < 5; ++i) {
      memory[i].setName(kFields[i].name);
      memory[i].setValue(kFields[i].value);
      memory[i].setUnit("kB");
    }
    node.setLoad("1.20 0.90 0.80");
    auto certificates = node.initCertificates(2);
    certificates[0].setId("api-server");
    auto server = certificates[0].initSpec();
    server.setSubject("master-1");
    server.setNotBefore("2026-11-26T10:00:00Z");
    server.setNotAfter("2026-11-27T10:00:00Z");
    certificates[1].setId("kubernetes-ca");
    auto ca = certificates[1].initSpec();
    ca.setSubject("kubernetes");
    ca.setAuthority(true);
    ca.setNotBefore("2017-01-01T00:00:00Z");
    ca.setNotAfter("2027-01-01T00:00:00Z");
  }

  static void addEtcd(rpc::DashboardNode::Builder node, unsigned number) {
    auto etcd = node.initEtcd();
    etcd.setPhase("member");
    etcd.setLeader("master-1");
    etcd.setVoters(3);
    etcd.setTolerates(1);
    auto member = node.initEtcdMember();
    member.setId(number + 1);
    member.setLeader(1);
    member.setRaftIndex(128'400);
    member.setRaftAppliedIndex(128'400 - number);
    auto vip = node.initVips(1)[0];
    vip.setAddress("10.5.0.50");
    auto status = vip.initStatus();
    status.setState(number == 1 ? "holder" : "waiting");
    status.setSince("2026-11-20T08:00:00Z");
    status.setLeaseUntil("2026-11-26T12:00:09Z");
  }

  static void fill(rpc::DashboardNode::Builder node, unsigned number) {
    bool controlPlane = number < 3;
    node.setAddress(kj::str("10.5.0.", number + 2));
    node.setControlPlane(controlPlane);
    auto version = node.initVersion();
    version.setHostname(kNames[number]);
    version.setTag("v0.100.0");
    version.setUptimeMs((6 * 86400 + 3600 * number) * uint64_t(1000));
    node.initStatus().setStage(rpc::Status::Stage::RUNNING);
    addServices(node, controlPlane);
    addSamples(node, number);
    auto mounts = node.initMounts(2);
    addMount(mounts[0], "/dev/nvme0n1p6", "/var", 400 * kGigabyte, (90 + 20 * number) * kGigabyte);
    addMount(mounts[1], "/dev/nvme0n1p5", "/system/state", 100'000'000, 21'000'000);
    node.initAddresses(1).set(0, kj::str("10.5.0.", number + 2));
    addLinks(node, number);
    auto time = node.initTime();
    time.setSynced(true);
    time.setServer("pool.ntp.org 192.0.2.7");
    time.setOffset("-0.42ms");
    auto containers = node.initContainers(2);
    for (unsigned i = 0; i < 2; ++i) {
      containers[i].setId(kj::str("kube-system/kube-proxy-", number, i == 0 ? "" : ":kube-proxy"));
      containers[i].setStatus(i == 0 ? "SANDBOX_READY" : "CONTAINER_RUNNING");
      containers[i].setImage("registry.k8s.io/kube-proxy:v1.34.4");
      containers[i].setPid(900 + i);
    }
    auto status = node.initNodeStatus();
    status.setNodename(kNames[number]);
    status.setReady(true);
    status.setApplied(true);
    if (controlPlane) addEtcd(node, number);
    addDetails(node);
  }

  static void addFaults(capnp::List<rpc::DashboardNode>::Builder nodes) {
    auto upgraded = nodes[2];
    auto upgrade = upgraded.initUpgrade();
    upgrade.setStage("writing");
    upgrade.setTarget("B v0.101.0");
    upgrade.setReason("62 of 92 MB");
    addMount(nodes[3].getMounts()[0], "/dev/nvme0n1p6", "/var", 400 * kGigabyte, 381 * kGigabyte);
    auto lost = nodes[4];
    lost.setError("no answer within 5s");
    lost.setSilentS(47);
  }

  static void addMembers(rpc::Dashboard::Builder root) {
    auto members = root.initMembers(3);
    for (unsigned i = 0; i < 3; ++i) {
      members[i].setId(i + 1);
      members[i].setName(kNames[i]);
      members[i].setLeader(i == 0);
      members[i].setVersion("3.5.16");
      members[i].setDbSize(41'000'000 + i * 100'000);
      members[i].initPeerUrls(1).set(0, kj::str("https://10.5.0.", i + 2, ":2380"));
    }
  }

  static void addSurvey(rpc::Survey::Builder survey) {
    survey.setVersion("v1.34.4");
    auto nodes = survey.initNodes(5);
    for (unsigned i = 0; i < 5; ++i) {
      nodes[i].setName(kNames[i]);
      nodes[i].setControlPlane(i < 3);
      nodes[i].setReady(i != 4);
      nodes[i].setKubeletVersion("v1.34.4");
      nodes[i].initPodCidrs(1).set(0, kj::str("10.244.", i, ".0/24"));
    }
    nodes[4].setReason("NodeStatusUnknown");
    nodes[4].setMessage("Kubelet stopped posting node status.");
    nodes[2].setUnschedulable(true);
    auto pods = survey.initPods(2);
    pods[0].setNamespace("kube-system");
    pods[0].setName("kube-apiserver-master-1");
    pods[0].setNode("master-1");
    pods[0].setComponent("kube-apiserver");
    pods[0].setPhase("Running");
    pods[0].setReady(true);
    pods[1].setNamespace("shop");
    pods[1].setName("web-5d9c7b8f6-2xkqz");
    pods[1].setPhase("Pending");
    pods[1].setReason("Unschedulable");
    pods[1].setMessage("0/5 nodes are available: 1 node was unschedulable.");
  }

  static void addCause(rpc::Diagnosis::Builder diagnosis) {
    diagnosis.setChecks(120);
    auto cause = diagnosis.initCauses(1)[0];
    cause.setCheck("node-silent");
    cause.initNodes(1).set(0, "10.5.0.6");
    cause.setConfidence("certain");
    cause.setSummary("the node does not answer");
    auto evidence = cause.initEvidence(1)[0];
    evidence.setText("no answer within 10s");
    cause.setCommand("look at its console, or start it again");
  }
};

}  // namespace talos::talosctl::dashboard
