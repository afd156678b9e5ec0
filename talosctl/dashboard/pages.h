// The pages of the dashboard: from a picture of the cluster and the view to a canvas, or to text.
// Pure: the same picture gives the same page.
#pragma once

#include "talosctl/dashboard/shown-node.h"
#include "talosctl/dashboard/view.h"

namespace talos::talosctl::dashboard {

struct Shown {
  ShownCluster cluster;
  // Of the node that the page is about, oldest first.
  kj::ArrayPtr<const kj::String> log = nullptr, kernel = nullptr;
};

// All of the screen. Returns how much there is to choose from.
Extent drawScreen(Canvas& canvas, const View& view, const Shown& shown);

// Everything of it, below one another, as wide as this.
kj::String snapshotText(ShownCluster cluster, size_t columns);

// --- the pages, each in its own file; `area` is that between the title and the keys

struct Frame {
  const View& view;
  const Shown& shown;
};
Extent drawOverview(Area area, const Frame& frame);
Extent drawNodePage(Area area, const Frame& frame);
Extent drawNetwork(Area area, const Frame& frame);
Extent drawCluster(Area area, const Frame& frame);

// One pane of a node's page, below its title.
Extent drawPane(Area area, Pane pane, const Frame& frame, ShownNode node, bool focused);

Sheet overviewSheet(ShownCluster cluster);
Sheet linkSheet(ShownCluster cluster);
// The page of the cluster, as long as it is.
Canvas clusterLines(ShownCluster cluster, size_t columns, kj::StringPtr filter);

// The last minute of one quantity of a node, as the sparkline that it is drawn as.
constexpr size_t kNameWidth = 12;  // in front of it
size_t sparklineWidth(size_t columns);
struct History {
  kj::Vector<double> values;
  double most = 0;
  kj::String now;
};
enum class Quantity : uint8_t { kCpu, kMemory, kDisk, kNetwork };
History historyOf(ShownNode node, Quantity quantity);

}  // namespace talos::talosctl::dashboard
