// Metrics of answers of machined, and the names of metrics in the dashboard and the alerts.
#include "apid/metrics/node-metrics.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "apid/metrics/kernel-metrics.h"
#include "common/base/date.h"

namespace talos::metrics {
namespace {

// A list of resources as machined answers with it.
class ResourceList {
 public:
  explicit ResourceList(unsigned size)
      : list(message.initRoot<rpc::Resources::ListResults>().initResources(size)) {}
  template <typename Spec>
  typename Spec::Builder add(kj::StringPtr id) {
    auto resource = list[next++];
    resource.initMetadata().setId(id);
    return resource.initSpec().initAs<Spec>();
  }
  Resources reader() { return list.asReader(); }

 private:
  capnp::MallocMessageBuilder message;
  capnp::List<rpc::Resource>::Builder list;
  unsigned next = 0;
};

const kj::Date kTestNow = kj::UNIX_EPOCH + 1'764'172'800 * kj::SECONDS;

// Writes one of every metric.
void writeEverything(MetricsText& out) {
  capnp::MallocMessageBuilder message, other, third, fourth, fifth, sixth;
  utsname kernel{};
  strcpy(kernel.sysname, "Linux");
  strcpy(kernel.nodename, "node-1");
  auto version = message.initRoot<rpc::Version>();
  version.setTag("v0.9.0");
  writeIdentity(out, kernel, version.asReader(), kTestNow);
  auto status = other.initRoot<rpc::Status>();
  status.setStage(rpc::Status::Stage::SHUTTING_DOWN);
  status.initProblems(2);
  status.setBrainRestarts(3);
  status.setRevertsInMs(1500);
  status.setConfigSha256("abc");
  writeMachine(out, status.asReader());

  ResourceList boots(3);
  auto boot = [&](kj::StringPtr id, unsigned number, kj::StringPtr reason) {
    auto spec = boots.add<rpc::BootRecordSpec>(id);
    spec.setNumber(number);
    spec.setReason(reason);
  };
  boot("a", 7, "the machine was reset or lost its power");
  boot("b", 8, "");
  boot("c", 6, "reboot, asked for by admin");
  writeBoots(out, boots.reader());

  ResourceList times(1);
  auto time = times.add<rpc::TimeStatusSpec>("node");
  time.setSynced(true);
  time.setOffset("-1.25ms");
  writeTime(out, times.reader());

  ResourceList upgrades(1);
  upgrades.add<rpc::UpgradeStatusSpec>("node").setStage("confirmed");
  writeUpgrade(out, upgrades.reader());

  ResourceList certificates(2);
  auto certificate = certificates.add<rpc::CertificateStatusSpec>("api-ca");
  certificate.setNotAfter("2027-11-26T16:00:00Z");
  certificate.setAuthority(true);
  certificates.add<rpc::CertificateStatusSpec>("odd").setProblem("unreadable");
  writeCertificates(out, certificates.reader());

  auto services = third.initRoot<rpc::Services::ListResults>().initServices(2);
  services[0].setId("apid");
  services[0].setState(rpc::ServiceState::RUNNING);
  services[0].setChecked(true);
  services[0].initHealth().setUnknown(false);
  services[0].getHealth().setHealthy(true);
  services[0].setStarts(2);
  services[1].setId("cri");
  services[1].setState(rpc::ServiceState::FAILED);
  writeServices(out, services.asReader());

  auto groups = fourth.initRoot<rpc::Machine::CgroupsResults>().initGroups(3);
  groups[0].initMemory().setCurrent(1);
  groups[1].setPath("system/a\"b");
  auto memory = groups[1].initMemory();
  memory.setCurrent(4096);
  memory.setPeak(rpc::Cgroup::UNCOUNTED);
  memory.setMax(-1);
  memory.setOomKills(1);
  groups[1].initCpu().setUsageUs(1'500'000);
  groups[1].initPids().setCurrent(3);
  groups[1].initIo().setReadBytes(5);
  groups[2].setPath("system");
  groups[2].initMemory().setCurrent(8192);
  groups[2].getMemory().setPeak(rpc::Cgroup::UNCOUNTED);
  groups[2].getMemory().setMax(-1);
  groups[2].getMemory().setOomKills(1);
  writeCgroups(out, groups.asReader(), 4);

  ResourceList etcd(1), members(1), vips(2), nodes(1), apis(1), links(1), sensors(2), disks(2),
      errors(1), logs(1), kills(2);
  auto etcdStatus = etcd.add<rpc::EtcdStatusSpec>("etcd");
  etcdStatus.setPhase("member");
  etcdStatus.setVoters(3);
  etcdStatus.setTolerates(1);
  members.add<rpc::EtcdMemberSpec>("f00").setName("node-1");
  auto local = fifth.initRoot<rpc::Etcd::MemberStatus>();
  local.setId(9);
  local.setLeader(9);
  local.setRaftIndex(100);
  local.setRaftAppliedIndex(90);
  writeEtcd(out, etcd.reader(), members.reader(), local.asReader());
  ResourceList backups(1);
  auto backup = backups.add<rpc::EtcdBackupStatusSpec>("etcd");
  backup.setTaken("2026-11-26T11:00:00Z");
  backup.setNext("2026-11-26T12:00:00Z");
  writeEtcdBackup(out, backups.reader());
  auto vip = vips.add<rpc::VipStatusSpec>("10.5.0.9");
  vip.setState("holder");
  vip.setHolder("node-1");
  vip.setChanges(2);
  vip.setLeaseUntil(dateText(kTestNow + 5 * kj::SECONDS));
  vips.add<rpc::VipStatusSpec>("10.5.0.8").setState("waiting");
  writeVip(out, vips.reader(), kTestNow);
  auto node = nodes.add<rpc::NodeStatusSpec>("node");
  node.setNodename("node-1");
  node.setReady(true);
  apis.add<rpc::LocalApiStatusSpec>("kube-apiserver").setReady(true);
  writeKubernetes(out, nodes.reader(), apis.reader());
  links.add<rpc::LinkStatusSpec>("eth0").setOperationalState("up");
  writeLinks(out, links.reader());
  auto sensor = sensors.add<rpc::SensorReadingSpec>("hwmon0-temp1");
  sensor.setKind("temperature");
  sensor.setValue(-5);
  sensor.setState("ok");
  sensors.add<rpc::SensorReadingSpec>("hwmon0-fan1").setKind("fan");
  writeSensors(out, sensors.reader());
  auto disk = disks.add<rpc::DiskHealthSpec>("nvme0n1");
  disk.setHealth("passed");
  disk.initNvme().setPercentageUsed(3);
  disks.add<rpc::DiskHealthSpec>("sda").setHealth("unknown");
  writeDiskHealth(out, disks.reader());
  errors.add<rpc::MemoryErrorCountSpec>("mc0").setCorrected(2);
  writeMemoryErrors(out, errors.reader());
  for (auto number : {"9"_kj, "10"_kj}) kills.add<rpc::OomActionSpec>(number);
  writeOomActions(out, kills.reader());
  auto log = logs.add<rpc::LogDestinationStatusSpec>("tcp://10.0.0.9:514/");
  log.setConnected(true);
  log.setSentLines(7);
  log.setWaitingBytes(6);
  log.setDroppedLines(5);
  log.setRefusedLines(4);
  log.setMissedBytes(3);
  log.setRepeatedLines(2);
  log.setMissedRecords(8);
  log.setDamagedBytes(9);
  writeLogDestinations(out, logs.reader());
}

// Catches: a value of another field; a state that no sample has; a series for an unknown value.
TEST(NodeMetrics, EachValueBecomesItsSeries) {
  MetricsText out(Format::kPrometheus);
  writeEverything(out);
  std::string text = out.finish().cStr();
  for (auto line : {
           "node_uname_info{sysname=\"Linux\",release=\"\",version=\"\",machine=\"\","
           "nodename=\"node-1\",domainname=\"\"} 1",
           "node_time_seconds 1764172800",
           "talos_machine_stage{stage=\"shuttingDown\"} 1",
           "talos_machine_stage{stage=\"running\"} 0",
           "talos_machine_problems 2",
           "talos_machined_restarts_total 3",
           "talos_config_trial_left_seconds 1.5",
           "talos_config_info{sha256=\"abc\"} 1",
           "talos_boot_number 8",
           "talos_boot_previous_ended_unexpectedly 1",
           "talos_time_synced 1",
           "talos_time_offset_seconds -0.00125",
           "talos_certificate_expiry_timestamp_seconds{certificate=\"api-ca\",ca=\"true\"} "
           "1827244800",
           "talos_service_state{service=\"apid\",state=\"running\"} 1",
           "talos_service_state{service=\"cri\",state=\"running\"} 0",
           "talos_service_state{service=\"cri\",state=\"failed\"} 1",
           "talos_service_healthy{service=\"apid\"} 1",
           "talos_service_starts_total{service=\"apid\"} 2",
           "talos_cgroup_memory_bytes{cgroup=\"system/a\\\"b\"} 4096",
           "talos_cgroup_cpu_seconds_total{cgroup=\"system/a\\\"b\"} 1.5",
           "talos_cgroup_parent_memory_bytes{cgroup=\"system\"} 8192",
           "talos_cgroups_left_out 4",
           "talos_etcd_phase{phase=\"member\"} 1",
           "talos_etcd_phase{phase=\"learner\"} 0",
           "talos_etcd_member_info{member=\"f00\",name=\"node-1\",learner=\"false\"} 1",
           "talos_etcd_up 1",
           "talos_etcd_is_leader 1",
           "talos_etcd_raft_applied_index 90",
           "talos_vip_state{address=\"10.5.0.9\",state=\"holder\"} 1",
           "talos_vip_state{address=\"10.5.0.8\",state=\"holder\"} 0",
           "talos_vip_holder_info{address=\"10.5.0.9\",holder=\"node-1\"} 1",
           "talos_vip_holder_known{address=\"10.5.0.8\"} 0",
           "talos_vip_lease_left_seconds{address=\"10.5.0.9\"} 5",
           "talos_kubernetes_node_ready{node=\"node-1\"} 1",
           "node_network_up{device=\"eth0\"} 1",
           "talos_sensor_temperature_celsius{chip=\"\",device=\"\",sensor=\"hwmon0-temp1\","
           "label=\"\"} -5",
           "talos_disk_healthy{device=\"nvme0n1\"} 1",
           "talos_disk_wear_ratio{device=\"nvme0n1\"} 0.03",
           "talos_log_destination_connected{endpoint=\"tcp://10.0.0.9:514/\"} 1",
           "talos_log_destination_sent_lines_total{endpoint=\"tcp://10.0.0.9:514/\"} 7",
           "talos_log_destination_waiting_bytes{endpoint=\"tcp://10.0.0.9:514/\"} 6",
           "talos_log_destination_dropped_lines_total{endpoint=\"tcp://10.0.0.9:514/\"} 5",
           "talos_log_destination_refused_lines_total{endpoint=\"tcp://10.0.0.9:514/\"} 4",
           "talos_log_destination_missed_bytes_total{endpoint=\"tcp://10.0.0.9:514/\"} 3",
           "talos_log_destination_missed_records_total{endpoint=\"tcp://10.0.0.9:514/\"} 8",
           "talos_log_destination_damaged_bytes_total{endpoint=\"tcp://10.0.0.9:514/\"} 9",
           "talos_log_destination_repeated_lines_total{endpoint=\"tcp://10.0.0.9:514/\"} 2",
           "talos_memory_errors_corrected_total{controller=\"\",module=\"\",id=\"mc0\"} 2",
           "talos_oom_kills_total 10",
       }) {
    EXPECT_NE(std::string::npos, text.find(std::string("\n") + line + "\n")) << line;
  }
  for (auto part : {"healthy{service=\"cri\"", "memory_peak", "memory_limit",
                    "disk_healthy{device=\"sda\"", "certificate=\"odd\"", "cgroup=\"\""}) {
    EXPECT_EQ(std::string::npos, text.find(part)) << part;
  }
}

// Catches: a sum of control groups that counts the memory of a pod three times; a container without
// its name, or with that of another; pods that cannot be left out.
TEST(NodeMetrics, ControlGroupsOfPodsHaveTheirNames) {
  capnp::MallocMessageBuilder first, second;
  auto groups = first.initRoot<rpc::Machine::CgroupsResults>().initGroups(6);
  const char* paths[] = {"kubepods",
                         "kubepods/burstable",
                         "kubepods/burstable/podu1",
                         "kubepods/burstable/podu1/c0ffee",
                         "kubepods/burstable/podu1/5a4d",
                         "kubepods/burstable/podu1/0dd"};
  for (unsigned i = 0; i < 6; ++i) {
    groups[i].setPath(paths[i]);
    groups[i].initMemory().setCurrent(10 + i);
  }
  auto containers = second.initRoot<rpc::Containers::ListResults>().initContainers(2);
  containers[0].setId("default/web");
  containers[0].setPodId("default/web");
  containers[0].setRuntimeId("5a4d");
  containers[1].setId("default/web:nginx");
  containers[1].setPodId("default/web");
  containers[1].setRuntimeId("c0ffee");
  auto textOf = [&](bool pods) {
    MetricsText out(Format::kPrometheus);
    writeCgroups(out, groups.asReader(), 0, containers.asReader(), pods);
    return std::string(out.finish().cStr());
  };
  auto all = textOf(true);
  for (auto line :
       {"parent_memory_bytes{cgroup=\"kubepods\"} 10",
        "parent_memory_bytes{cgroup=\"kubepods/burstable\"} 11",
        "parent_memory_bytes{cgroup=\"kubepods/burstable/podu1\",namespace=\"default\","
        "pod=\"web\"} 12",
        "memory_bytes{cgroup=\"kubepods/burstable/podu1/c0ffee\",namespace=\"default\","
        "pod=\"web\",container=\"nginx\"} 13",
        "memory_bytes{cgroup=\"kubepods/burstable/podu1/5a4d\",namespace=\"default\",pod=\"web\"} "
        "14",
        "memory_bytes{cgroup=\"kubepods/burstable/podu1/0dd\"} 15"}) {
    EXPECT_NE(std::string::npos, all.find("\ntalos_cgroup_" + std::string(line) + "\n"))
        << line << "\n"
        << all;
  }
  EXPECT_EQ(std::string::npos, all.find("talos_cgroup_memory_bytes{cgroup=\"kubepods\"}"));
  auto without = textOf(false);
  EXPECT_NE(std::string::npos, without.find("talos_cgroup_memory_bytes{cgroup=\"kubepods\"} 10\n"));
  EXPECT_EQ(std::string::npos, without.find("kubepods/"));
  EXPECT_NE(std::string::npos, without.find("talos_cgroups_left_out 0\n"));
}

// Catches: etcd's metrics on a worker; a node whose etcd is down and that does not report it.
TEST(NodeMetrics, EtcdThatIsDown) {
  MetricsText out(Format::kPrometheus);
  ResourceList none(0), one(1);
  writeEtcd(out, none.reader(), none.reader(), nullptr);
  EXPECT_EQ(0u, out.series());
  one.add<rpc::EtcdStatusSpec>("etcd").setPhase("joining");
  writeEtcd(out, one.reader(), none.reader(), nullptr);
  std::string text = out.finish().cStr();
  EXPECT_NE(std::string::npos, text.find("\ntalos_etcd_up 0\n"));
  EXPECT_EQ(std::string::npos, text.find("raft"));
}

// Catches: three members that each count the same backup; a standby member whose backup counts as
// overdue.
TEST(NodeMetrics, BackupsOfTheMemberThatTakesThem) {
  MetricsText out(Format::kPrometheus);
  ResourceList standby(1), leader(1);
  standby.add<rpc::EtcdBackupStatusSpec>("etcd").setPhase("standby");
  writeEtcdBackup(out, standby.reader());
  EXPECT_EQ(0u, out.series());
  auto status = leader.add<rpc::EtcdBackupStatusSpec>("etcd");
  status.setPhase("waiting");
  status.setTaken("2026-11-26T11:00:00Z");
  status.setNext("2026-11-26T12:00:00Z");
  status.setKept(7);
  status.setMessage("the store is away");
  writeEtcdBackup(out, leader.reader());
  std::string text = out.finish().cStr();
  for (auto line : {"newest_timestamp_seconds 1795690800", "due_timestamp_seconds 1795694400",
                    "kept 7", "failing 1"}) {
    EXPECT_NE(std::string::npos, text.find("\ntalos_etcd_backup_" + std::string(line) + "\n"))
        << line << text;
  }
}

std::string documentOf(const std::string& name) {
  std::ifstream file(TALOS_SOURCE_DIR "/docs/dashboards/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> namesIn(const std::string& text) {
  std::set<std::string> names;
  std::regex name("\\b(node|talos)_[A-Za-z0-9_]+");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    names.insert(it->str());
  }
  return names;
}

// Catches: a panel or an alert that stays empty for ever, because its metric has another name.
TEST(NodeMetrics, WhatTheDocumentsNameIsThere) {
  MetricsText out(Format::kPrometheus);
  writeEverything(out);
  writeStat(out, "cpu0 1 2 3 4 5 6 7 8\nbtime 1\n"_kj.asArray());
  writeLoad(out, "1 2 3 1/2 3\n"_kj.asArray());
  auto pressure = "some total=1\nfull total=1\n"_kj.asArray();
  writePressure(out, pressure, pressure, pressure);
  writeDisks(out, "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n"_kj.asArray());
  writeNetworkDevices(out, "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"_kj.asArray());
  writeConnections(out, "1\n"_kj.asArray(), "2\n"_kj.asArray());
  capnp::MallocMessageBuilder message, second;
  auto fields = message.initRoot<rpc::Machine::MemoryResults>().initFields(2);
  fields[0].setName("MemTotal");
  fields[0].setUnit("kB");
  fields[1].setName("MemAvailable");
  fields[1].setUnit("kB");
  writeMemory(out, fields.asReader());
  auto mounts = second.initRoot<rpc::Machine::MountsResults>().initMounts(1);
  mounts[0].setSize(1);
  writeFilesystems(out, mounts.asReader());
  auto there = namesIn(out.finish().cStr());
  // Metrics that apid counts itself.
  for (auto name :
       {"talos_metrics_part_up", "talos_api_calls_total", "talos_api_call_seconds_bucket"}) {
    there.insert(name);
  }
  for (std::string document : {"node.json", "alerts.yaml"}) {
    auto names = namesIn(documentOf(document));
    EXPECT_LT(15u, names.size()) << document;
    for (auto& name : names) EXPECT_EQ(1u, there.count(name)) << document << ": " << name;
  }
}

}  // namespace
}  // namespace talos::metrics
