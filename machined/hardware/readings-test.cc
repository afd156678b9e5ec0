// Sensors, errors of memory, NUMA nodes and groups of the IOMMU, from trees like the kernel's.
#include <gmock/gmock.h>

#include "common/base/folder.h"
#include "common/testing/test-tree.h"
#include "machined/hardware/readings.h"

namespace talos::machined {
namespace {

struct ReadingsTest : public testing::Test {
  TestTree tree;
  kj::String sys = tree.at("sys");

  void file(kj::StringPtr path, kj::StringPtr text) {
    auto relative = kj::str("sys/", path);
    tree.directory(folderOf(relative));
    tree.file(relative, kj::str(text, "\n"));
  }
  void directory(kj::StringPtr path) { tree.directory(kj::str("sys/", path)); }
  void chip(kj::StringPtr folder, kj::StringPtr name,
            std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> files) {
    file(kj::str("class/hwmon/", folder, "/name"), name);
    for (auto& each : files) file(kj::str("class/hwmon/", folder, "/", each.first), each.second);
  }
  std::string sensors() {
    std::string text;
    for (auto& s : readSensors(sys)) {
      text += kj::str(s.id, " ", s.chip, "/", s.device, "/", s.label, " ", s.value, " ", s.low, " ",
                      s.high, " ", s.critical, " ", s.state, "\n")
                  .cStr();
    }
    return text;
  }
  // Returns the state of a single sensor.
  std::string state(kj::StringPtr name,
                    std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> files) {
    removeTree(sys);
    chip("hwmon0", "x", {});
    for (auto& each : files) {
      file(kj::str("class/hwmon/hwmon0/", name, "_", each.first), each.second);
    }
    auto found = readSensors(sys);
    return found.size() == 1 ? found[0].state.cStr() : "none";
  }
};

// Catches: degrees that are a thousand times too high, an order by letters, the label of another
// sensor, a voltage that is taken for a temperature.
TEST_F(ReadingsTest, SensorsInTheirOrder) {
  chip("hwmon10", "coretemp",
       {{"temp10_input", "43600"},
        {"temp2_input", "41499"},
        {"temp2_label", "Core 0"},
        {"temp2_max", "80000"},
        {"temp2_crit", "100000"},
        {"in0_input", "1200"},
        {"temp2_crit_alarm", "0"}});
  tree.link("sys/class/hwmon/hwmon10/device", "../../../coretemp.0");
  chip("hwmon2", "nct6798", {{"fan1_input", "1180"}, {"fan1_min", "300"}, {"temp1_input", "-600"}});
  EXPECT_EQ(sensors(),
            "hwmon2-temp1 nct6798// -1 0 0 0 ok\n"
            "hwmon2-fan1 nct6798// 1180 300 0 0 ok\n"
            "hwmon10-temp2 coretemp/coretemp.0/Core 0 41 0 80 100 ok\n"
            "hwmon10-temp10 coretemp/coretemp.0/ 44 0 0 0 ok\n");
}

// Catches: a hot machine that counts as healthy; an alarm for a limit that the driver lacks.
TEST_F(ReadingsTest, StatesOfSensors) {
  EXPECT_EQ(state("temp1", {{"input", "50000"}}), "ok");
  EXPECT_EQ(state("temp1", {{"input", "80000"}, {"max", "80000"}, {"crit", "90000"}}), "high");
  EXPECT_EQ(state("temp1", {{"input", "95000"}, {"max", "80000"}, {"crit", "90000"}}), "critical");
  EXPECT_EQ(state("temp1", {{"input", "50000"}, {"crit_alarm", "1"}}), "critical");
  EXPECT_EQ(state("temp1", {{"input", "50000"}, {"max_alarm", "1"}}), "high");
  EXPECT_EQ(state("temp1", {{"input", "50000"}, {"alarm", "1"}}), "alarm");
  EXPECT_EQ(state("temp1", {{"input", "95000"}, {"fault", "1"}, {"crit", "90000"}}), "fault");
  EXPECT_EQ(state("fan1", {{"input", "0"}}), "ok");
  EXPECT_EQ(state("fan1", {{"input", "200"}, {"min", "300"}}), "low");
  EXPECT_EQ(state("fan1", {{"input", "900"}, {"alarm", "1"}}), "alarm");
}

// Catches: a figure for a sensor without a value.
TEST_F(ReadingsTest, SensorsThatCannotBeRead) {
  for (auto text : {"", "x", "1e9", "9999999999", "-9999999999", "99999999999999999999"}) {
    EXPECT_EQ(state("temp1", {{"input", text}}), "none") << text;
  }
  EXPECT_EQ(state("fan1", {{"input", "-1"}}), "none");
  EXPECT_EQ(state("temp", {{"input", "5000"}}), "none");
  EXPECT_EQ(state("tempx", {{"input", "5000"}}), "none");
  removeTree(sys);
  EXPECT_EQ(sensors(), "");
}

// Catches: errors of one module that are counted for another; a controller of old kernels, without
// counters, that counts as one without errors.
TEST_F(ReadingsTest, ErrorsOfMemory) {
  auto mc = [&](kj::StringPtr path, kj::StringPtr text) {
    file(kj::str("devices/system/edac/mc/", path), text);
  };
  mc("mc0/mc_name", "Skylake Socket#0 IMC#0");
  mc("mc0/size_mb", "65536");
  mc("mc0/ce_count", "12");
  mc("mc0/ue_count", "1");
  mc("mc0/dimm10/dimm_ce_count", "0");
  mc("mc0/dimm2/dimm_ce_count", "12");
  mc("mc0/dimm2/dimm_ue_count", "1");
  mc("mc0/dimm2/dimm_label", "CPU_SrcID#0_MC#0_Chan#1_DIMM#0");
  mc("mc0/dimm2/size", "32768");
  mc("mc1/mc_name", "no counters");
  directory("devices/system/edac/mc/power");
  std::string text;
  for (auto& e : readMemoryErrors(sys)) {
    text += kj::str(e.id, "|", e.controller, "|", e.module, "|", e.mebibytes, "|", e.corrected, "|",
                    e.uncorrected, "\n")
                .cStr();
  }
  EXPECT_EQ(text,
            "mc0|Skylake Socket#0 IMC#0||65536|12|1\n"
            "mc0-dimm2|Skylake Socket#0 IMC#0|CPU_SrcID#0_MC#0_Chan#1_DIMM#0|32768|12|1\n"
            "mc0-dimm10|Skylake Socket#0 IMC#0|dimm10|0|0|0\n");
  EXPECT_EQ(readMemoryErrors("/nowhere").size(), 0u);
}

// Catches: memory of another line or unit; a node without processors that is left out.
TEST_F(ReadingsTest, NumaNodes) {
  file("devices/system/node/node0/cpulist", "0-7,16-23");
  file("devices/system/node/node0/distance", "10 21");
  file("devices/system/node/node0/meminfo",
       "Node 0 MemFree:        1024 kB\nNode 0 MemTotal:       65842176 kB");
  file("devices/system/node/node1/cpulist", "");
  file("devices/system/node/node1/distance", "21 10");
  directory("devices/system/node/power");
  auto nodes = readNumaNodes(sys);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(kj::str(nodes[0].id, " ", nodes[0].cpus, " ", nodes[0].mebibytes, " ",
                    kj::strArray(nodes[0].distances, ",")),
            "node0 0-7,16-23 64299 10,21");
  EXPECT_EQ(kj::str(nodes[1].id, " ", nodes[1].cpus, " ", nodes[1].mebibytes), "node1  0");
  EXPECT_EQ(readNumaNodes("/nowhere").size(), 0u);
}

// Catches: devices of another group, an order by letters.
TEST_F(ReadingsTest, GroupsOfTheIommu) {
  directory("kernel/iommu_groups/10/devices/0000:00:1f.2");
  directory("kernel/iommu_groups/10/devices/0000:00:1f.0");
  directory("kernel/iommu_groups/2/devices/0000:00:02.0");
  file("kernel/iommu_groups/10/type", "DMA-FQ");
  auto groups = readIommuGroups(sys);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(kj::str(groups[0].id, " ", groups[0].type, " ", kj::strArray(groups[0].devices, ",")),
            "2  0000:00:02.0");
  EXPECT_EQ(kj::str(groups[1].id, " ", groups[1].type, " ", kj::strArray(groups[1].devices, ",")),
            "10 DMA-FQ 0000:00:1f.0,0000:00:1f.2");
}

}  // namespace
}  // namespace talos::machined
