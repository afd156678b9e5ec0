#include "apid/metrics/kernel-metrics.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::metrics {
namespace {

struct KernelMetricsTest : testing::Test {
  ~KernelMetricsTest() noexcept override {}
  MetricsText out{Format::kPrometheus};
  // Returns only the samples.
  std::string samples() {
    std::string text = out.finish().cStr(), result;
    for (size_t begin = 0; begin < text.size();) {
      auto end = text.find('\n', begin);
      auto line = text.substr(begin, end - begin);
      if (line[0] != '#' && !line.starts_with("talos_metrics_left_out")) result += line + "\n";
      begin = end + 1;
    }
    return result;
  }
  static FileText text(kj::StringPtr text) { return text.asArray(); }
};

// Catches: ticks for seconds; the line of all processors beside the line of each; guest time that
// is counted twice.
TEST_F(KernelMetricsTest, Stat) {
  writeStat(out, text("cpu  10 20 30 40 50 60 70 80 90 100\n"
                      "cpu0 100 2 300 4000 5 6 7 8 9 10\n"
                      "cpu1 1 2\n"
                      "intr 99 1 2\nctxt 77\nbtime 1764172800\nprocesses 5\nprocs_running 2\n"
                      "procs_blocked 0\n"));
  EXPECT_EQ(
      "node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 1\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"nice\"} 0.02\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"system\"} 3\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 40\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"iowait\"} 0.05\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"irq\"} 0.06\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"softirq\"} 0.07\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"steal\"} 0.08\n"
      "node_cpu_seconds_total{cpu=\"1\",mode=\"user\"} 0.01\n"
      "node_cpu_seconds_total{cpu=\"1\",mode=\"nice\"} 0.02\n"
      "node_intr_total 99\nnode_context_switches_total 77\nnode_forks_total 5\n"
      "node_boot_time_seconds 1764172800\nnode_procs_running 2\nnode_procs_blocked 0\n",
      samples());
}

TEST_F(KernelMetricsTest, LoadAndPressure) {
  writeLoad(out, text("0.52 1.25 3.00 2/300 4711\n"));
  writePressure(out,
                text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
                     "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
                text("some avg10=1.00 avg60=0.00 avg300=0.00 total=2000000\n"
                     "full avg10=1.00 avg60=0.00 avg300=0.00 total=250000\n"),
                text(""));
  EXPECT_EQ(
      "node_load1 0.52\nnode_load5 1.25\nnode_load15 3\n"
      "node_pressure_cpu_waiting_seconds_total 1.5\n"
      "node_pressure_memory_waiting_seconds_total 2\n"
      "node_pressure_memory_stalled_seconds_total 0.25\n",
      samples());
}

// Catches: kilobytes for bytes, and a name that scrapers refuse.
TEST_F(KernelMetricsTest, Memory) {
  capnp::MallocMessageBuilder message;
  auto fields = message.initRoot<rpc::Machine::MemoryResults>().initFields(4);
  auto set = [&](unsigned i, kj::StringPtr name, uint64_t value, kj::StringPtr unit) {
    fields[i].setName(name);
    fields[i].setValue(value);
    fields[i].setUnit(unit);
  };
  set(0, "MemTotal", 2048, "kB");
  set(1, "Active(anon)", 1, "kB");
  set(2, "HugePages_Total", 3, "");
  set(3, "odd name", 3, "");
  writeMemory(out, fields.asReader());
  writeVmstat(out, text("nr_free_pages 5\npgfault 12\noom_kill 1\n"));
  writeFileHandles(out, text("1216\t0\t9223372036854775807\n"));
  EXPECT_EQ(
      "node_memory_MemTotal_bytes 2097152\nnode_memory_Active_anon_bytes 1024\n"
      "node_memory_HugePages_Total 3\nnode_vmstat_pgfault 12\nnode_vmstat_oom_kill 1\n"
      "node_filefd_allocated 1216\nnode_filefd_maximum 9223372036854775808\n",
      samples());
}

// Catches: sectors for bytes, milliseconds for seconds, partitions of loop devices.
TEST_F(KernelMetricsTest, Disks) {
  writeDisks(out, text(" 253 0 vda 1 2 3 4000 5 6 7 8000 9 10500 11000 0 0 0 0\n"
                       "   7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n"
                       " 253 1 vda1 1 2 3\n"));
  EXPECT_EQ(
      "node_disk_reads_completed_total{device=\"vda\"} 1\n"
      "node_disk_reads_merged_total{device=\"vda\"} 2\n"
      "node_disk_read_bytes_total{device=\"vda\"} 1536\n"
      "node_disk_read_time_seconds_total{device=\"vda\"} 4\n"
      "node_disk_writes_completed_total{device=\"vda\"} 5\n"
      "node_disk_writes_merged_total{device=\"vda\"} 6\n"
      "node_disk_written_bytes_total{device=\"vda\"} 3584\n"
      "node_disk_write_time_seconds_total{device=\"vda\"} 8\n"
      "node_disk_io_now{device=\"vda\"} 9\n"
      "node_disk_io_time_seconds_total{device=\"vda\"} 10.5\n"
      "node_disk_io_time_weighted_seconds_total{device=\"vda\"} 11\n",
      samples());
}

// Catches: the same series twice, which makes a scraper refuse all of them; mounts of pods; the
// root image, which is always full.
TEST_F(KernelMetricsTest, Filesystems) {
  struct {
    kj::StringPtr device, path, type;
    uint64_t size;
  } rows[] = {{"/dev/loop0", "/", "squashfs", 100},
              {"tmpfs", "/var/lib/kubelet/pods/1/volumes/x", "tmpfs", 100},
              {"proc", "/proc", "proc", 0},
              {"tmpfs", "/run", "tmpfs", 50},
              {"/dev/vda6", "/var", "xfs", 1000},
              {"tmpfs", "/run", "tmpfs", 60}};
  capnp::MallocMessageBuilder message;
  auto mounts = message.initRoot<rpc::Machine::MountsResults>().initMounts(kj::size(rows));
  for (auto i : kj::indices(rows)) {
    mounts[i].setFilesystem(rows[i].device);
    mounts[i].setMountedOn(rows[i].path);
    mounts[i].setType(rows[i].type);
    mounts[i].setSize(rows[i].size);
    mounts[i].setFree(20);
    mounts[i].setAvailable(10);
    mounts[i].setFiles(8);
    mounts[i].setFilesFree(5);
    mounts[i].setReadOnly(rows[i].path == "/var");
  }
  writeFilesystems(out, mounts.asReader());
  std::string run = "{device=\"tmpfs\",fstype=\"tmpfs\",mountpoint=\"/run\"} ";
  std::string var = "{device=\"/dev/vda6\",fstype=\"xfs\",mountpoint=\"/var\"} ";
  auto both = [&](std::string name, std::string ofRun, std::string ofVar) {
    name = "node_filesystem_" + name;
    return name + run + ofRun + "\n" + name + var + ofVar + "\n";
  };
  EXPECT_EQ(both("size_bytes", "60", "1000") + both("free_bytes", "20", "20") +
                both("avail_bytes", "10", "10") + both("files", "8", "8") +
                both("files_free", "5", "5") + both("readonly", "0", "1"),
            samples());
}

TEST_F(KernelMetricsTest, Network) {
  writeNetworkDevices(out,
                      text("Inter-|   Receive                                                |  "
                           "Transmit\n face |bytes    packets errs drop fifo frame compressed "
                           "multicast|bytes    packets errs drop fifo colls carrier "
                           "compressed\n"
                           "  eth0:100 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
                           "  odd: 1 2\n"));
  writeConnections(out, text("12\n"), text("65536\n"));
  writeSockets(out, text("sockets: used 290\nTCP: inuse 27 orphan 0 tw 1 alloc 30 mem 4\n"));
  writeProtocols(out, text("Tcp: RtoAlgorithm CurrEstab RetransSegs\nTcp: 1 20 3\n"),
                 text("TcpExt: SyncookiesSent ListenDrops\nTcpExt: 0 7\n"));
  auto text = samples();
  for (auto line : {"node_network_receive_bytes_total{device=\"eth0\"} 100\n",
                    "node_network_receive_drop_total{device=\"eth0\"} 4\n",
                    "node_network_transmit_bytes_total{device=\"eth0\"} 9\n",
                    "node_network_transmit_compressed_total{device=\"eth0\"} 16\n",
                    "node_nf_conntrack_entries 12\n", "node_nf_conntrack_entries_limit 65536\n",
                    "node_sockstat_sockets_used 290\n", "node_sockstat_TCP_tw 1\n",
                    "node_netstat_Tcp_CurrEstab 20\n", "node_netstat_Tcp_RetransSegs 3\n",
                    "node_netstat_TcpExt_ListenDrops 7\n"}) {
    EXPECT_NE(std::string::npos, text.find(line)) << line << text;
  }
  EXPECT_EQ(std::string::npos, text.find("odd"));
}

// Catches: a text that ends the process or loops.
TEST_F(KernelMetricsTest, UnexpectedTextsYieldNoSamples) {
  for (kj::StringPtr odd : {""_kj, "\n\n"_kj, "cpu"_kj, "cpu0"_kj, "Tcp:"_kj, "Tcp: a\nTcp:"_kj,
                            ":"_kj, "some"_kj, "a b c d e f g h i j k l m n o p q"_kj}) {
    writeStat(out, odd.asArray());
    writeLoad(out, odd.asArray());
    writePressure(out, odd.asArray(), odd.asArray(), odd.asArray());
    writeVmstat(out, odd.asArray());
    writeFileHandles(out, odd.asArray());
    writeDisks(out, odd.asArray());
    writeNetworkDevices(out, odd.asArray());
    writeSockets(out, odd.asArray());
    writeProtocols(out, odd.asArray(), odd.asArray());
    writeConnections(out, odd.asArray(), odd.asArray());
  }
  EXPECT_LT(out.finish().size(), 10'000u);
}

}  // namespace
}  // namespace talos::metrics
