// The page with links of all nodes, and their shared addresses
#include "talosctl/dashboard/pages.h"

namespace talos::talosctl::dashboard {

namespace {

// Hides links of pods: there are too many, and they change with the pods.
bool isShownLink(rpc::DashboardNode::Link::Reader link) {
  return link.getHardware() || (link.getAddresses().size() > 0 && link.getName() != "lo");
}

size_t drawVips(Area area, ShownCluster cluster) {
  size_t row = 0;
  kj::Vector<kj::String> drawn;
  for (auto node : cluster.getNodes()) {
    for (auto vip : node.getVips()) {
      auto status = vip.getStatus();
      if (!holds(cluster, node, vip)) continue;
      auto end = area.put(row, 0, kj::str("shared address ", vip.getAddress(), ": "), Look::kPlain);
      end = area.put(row, end, nameOf(node), Look::kGood);
      area.put(row++, end,
               kj::str(", since ", status.getSince(), ", lease until ", status.getLeaseUntil()),
               Look::kDim);
      drawn.add(kj::str(vip.getAddress()));
    }
  }
  for (auto node : cluster.getNodes()) {
    for (auto vip : node.getVips()) {
      bool known = false;
      for (auto& one : drawn) known = known || one == vip.getAddress();
      if (known) continue;
      area.put(row++, 0,
               kj::str("shared address ", vip.getAddress(), ": no node has it (",
                       vip.getStatus().getReason(), ")"),
               Look::kBad);
      drawn.add(kj::str(vip.getAddress()));
    }
  }
  return row;
}

}  // namespace

Sheet linkSheet(ShownCluster cluster) {
  Sheet sheet({{"NODE"},
               {"LINK", 0, 16},
               {"STATE"},
               {"KIND", 4},
               {"ADDRESSES", 1, 44},
               {"IN", 0, 12, true},
               {"OUT", 0, 12, true},
               {"ERRORS", 2, 10, true},
               {"DROPPED", 3, 10, true},
               {"MTU", 5, 6, true}});
  for (auto node : cluster.getNodes()) {
    bool silent = node.getError().size() > 0;
    for (auto link : node.getLinks()) {
      if (!isShownLink(link)) continue;
      auto state = silent         ? SheetCell{kj::str("not known"), Look::kDim}
                   : link.getUp() ? SheetCell{kj::str("up"), Look::kGood}
                                  : SheetCell{kj::str("down"), Look::kBad};
      sheet.add(nameOf(node), kj::str(link.getName()), kj::mv(state), kj::str(link.getKind()),
                kj::strArray(link.getAddresses(), " "),
                rate(link.getRatesKnown(), link.getReceivedRate()),
                rate(link.getRatesKnown(), link.getSentRate()),
                SheetCell{kj::str(link.getErrors()),
                          link.getErrors() > 0 ? Look::kWarning : Look::kPlain},
                kj::str(link.getDropped()), kj::str(link.getMtu()));
    }
  }
  return sheet;
}

Extent drawNetwork(Area area, const Frame& frame) {
  auto cluster = frame.shown.cluster;
  auto row = drawVips(area, cluster);
  for (auto node : cluster.getNodes()) {
    for (auto problem : node.getNetwork().getProblems()) {
      if (row + 4 > area.rows()) break;
      area.put(row++, 0, kj::str(nameOf(node), ": ", problem), Look::kBad);
    }
  }
  if (row > 0) ++row;
  auto sheet = linkSheet(cluster);
  sheet.keep(frame.view.filter);
  auto rest = area.below(row);
  sheet.draw(rest, selectedLine(frame.view, sheet.size(), false));
  return {.nodes = cluster.getNodes().size(),
          .lines = sheet.size(),
          .visible = rest.rows() > 0 ? rest.rows() - 1 : 0,
          .service = {}};
}

}  // namespace talos::talosctl::dashboard
