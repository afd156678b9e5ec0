// The page with all nodes, and the last minute of the selected node
#include <algorithm>

#include "common/text/size.h"
#include "talosctl/dashboard/pages.h"

namespace talos::talosctl::dashboard {

namespace {

void drawHistory(Area area, ShownNode node) {
  struct Line {
    kj::StringPtr name;
    Quantity quantity;
  };
  constexpr Line kLines[] = {{"CPU"_kj, Quantity::kCpu},
                             {"memory"_kj, Quantity::kMemory},
                             {"disks"_kj, Quantity::kDisk},
                             {"network"_kj, Quantity::kNetwork}};
  size_t row = 0;
  for (auto& line : kLines) {
    auto history = historyOf(node, line.quantity);
    area.put(row, 0, line.name, Look::kDim);
    auto width = sparklineWidth(area.columns());
    area.sparkline(row, kNameWidth, width, history.values, history.most, Look::kAccent);
    area.put(row++, kNameWidth + 2 + width, history.now);
  }
}

// Draws one problem of each node before the second problem of any, so that in little space no node
// is left out.
void drawProblems(Area area, ShownCluster cluster) {
  size_t row = 0;
  bool more = true;
  for (size_t number = 0; more && row < area.rows(); ++number) {
    more = false;
    for (auto node : cluster.getNodes()) {
      auto problems = problemsOf(node);
      if (number >= problems.size()) continue;
      more = true;
      auto end = area.put(row, 0, nameOf(node), Look::kBad);
      area.put(row++, end + 2, problems[number]);
    }
  }
  if (row == 0) area.put(0, 0, "none", Look::kGood);
}

}  // namespace

// Returns the width for one value per second of a minute, leaving room for the newest value as
// text.
size_t sparklineWidth(size_t columns) {
  constexpr size_t kText = 36, kLeast = 10, kMinute = 60;
  return std::clamp(columns > kNameWidth + kText ? columns - kNameWidth - kText : kLeast, kLeast,
                    kMinute);
}

History historyOf(ShownNode node, Quantity quantity) {
  History history;
  kj::String now;
  for (auto sample : node.getSamples()) {
    switch (quantity) {
      case Quantity::kCpu:
        history.values.add(sample.getCpuBusy());
        now = percent(sample.getCpuBusy());
        break;
      case Quantity::kMemory: {
        auto total = sample.getMemoryTotal();
        auto used = total - kj::min(total, sample.getMemoryAvailable());
        history.values.add(total > 0 ? double(used) * 1000 / double(total) : 0);
        now = kj::str(decimalSize(used), " of ", decimalSize(total));
        break;
      }
      case Quantity::kDisk:
        history.values.add(double(sample.getDiskRead()) + double(sample.getDiskWritten()));
        now = kj::str(rate(sample.getDiskRead()), " read, ", rate(sample.getDiskWritten()),
                      " written");
        break;
      case Quantity::kNetwork:
        history.values.add(double(sample.getNetworkReceived()) + double(sample.getNetworkSent()));
        now = kj::str(rate(sample.getNetworkReceived()), " in, ", rate(sample.getNetworkSent()),
                      " out");
        break;
    }
  }
  bool isShare = quantity == Quantity::kCpu || quantity == Quantity::kMemory;
  // Least scale, so that noise does not look like a peak.
  constexpr double kLeastScale = 1'000'000;
  history.most = isShare ? 1000 : kLeastScale;
  for (auto value : history.values) history.most = kj::max(history.most, value);
  history.now = kj::mv(now);
  return history;
}

Sheet overviewSheet(ShownCluster cluster) {
  const size_t kRates = "999 kB/s in, 999 kB/s out"_kj.size();
  Sheet sheet({{"NODE"},
               {"ADDRESS", 3},
               {"ROLE", 4},
               {"STAGE", 0, 24},
               {"HEALTH", 0, 14},
               {"CPU", 1},
               {"LOAD", 5, 6, true},
               {"MEMORY", 1},
               {"DISK", 1},
               {"NETWORK", 4, 30, false, kRates},
               {"SERVICES", 2},
               {"PODS", 4, 5, true},
               {"ETCD", 2},
               {"SHARED ADDRESS", 3},
               {"VERSION", 5, 16},
               {"UP", 5, 8, true},
               {"PROBLEM", 6, 60}});
  for (auto node : cluster.getNodes()) {
    auto samples = node.getSamples();
    auto load = samples.size() == 0
                    ? kj::String()
                    : kj::str(int(samples[samples.size() - 1].getLoad1() * 10) / 10.0);
    sheet.add(nameOf(node), kj::str(node.getAddress()),
              node.getControlPlane() ? "control plane"_kj : "worker"_kj, stageOf(node),
              healthOf(node), cpuOf(node), kj::mv(load), memoryOf(node), diskOf(node),
              networkOf(node), servicesOf(node), podsOf(node), etcdOf(cluster, node),
              vipsOf(cluster, node), kj::str(node.getVersion().getTag()), uptimeOf(node),
              problemOf(node));
  }
  return sheet;
}

Extent drawOverview(Area area, const Frame& frame) {
  auto cluster = frame.shown.cluster;
  auto sheet = overviewSheet(cluster);
  sheet.keep(frame.view.filter);
  auto selected = selectedLine(frame.view, sheet.size(), false);
  constexpr size_t kHistory = 5, kProblems = 4;
  auto room = area.rows();
  // The nodes come first; the other parts need this many rows.
  auto table = kj::min(sheet.size() + 1, room > 3 ? room : 1);
  if (room > kHistory + kProblems + 4) {
    table = kj::min(table, room - kHistory - kProblems - 1);
  }
  sheet.draw(area.part(0, 0, table, area.columns()), selected);
  Extent extent{.nodes = cluster.getNodes().size(),
                .lines = sheet.size(),
                .visible = table - 1,
                .service = {}};
  for (size_t line = 0; line < sheet.size(); ++line) extent.nodeOfLine.add(sheet.numberOf(line));
  auto row = table + 1;
  if (row + kHistory > room) return extent;
  if (sheet.size() > 0) {
    auto node = cluster.getNodes()[unsigned(sheet.numberOf(selected))];
    area.title(row, kj::str(nameOf(node), ", the last minute"));
    drawHistory(area.below(row + 1), node);
  }
  row += kHistory + 1;
  if (row + 1 < room) {
    area.title(row, "Problems");
    drawProblems(area.below(row + 1), cluster);
  }
  return extent;
}

}  // namespace talos::talosctl::dashboard
