// The pages of the dashboard: turns a picture of the cluster and the view into a canvas or a text.
// Pure: the same picture gives the same page.
#pragma once

#include "talosctl/dashboard/shown-node.h"
#include "talosctl/dashboard/view.h"

namespace talos::talosctl::dashboard {

struct Shown {
  ShownCluster cluster;
  // Lines of the page's node, oldest first.
  kj::ArrayPtr<const kj::String> log = nullptr, kernel = nullptr;
};

// Draws the whole screen. Returns the number of choices on it.
Extent drawScreen(Canvas& canvas, const View& view, const Shown& shown);

// Returns all pages, one below the other, with this width.
kj::String snapshotText(ShownCluster cluster, size_t columns);

// --- the pages, each in its own file; `area` is the part between the title and the keys

struct Frame {
  const View& view;
  const Shown& shown;
};
Extent drawOverview(Area area, const Frame& frame);
Extent drawNodePage(Area area, const Frame& frame);
Extent drawNetwork(Area area, const Frame& frame);
Extent drawCluster(Area area, const Frame& frame);

// Draws one pane of a node's page, below its title.
Extent drawPane(Area area, Pane pane, const Frame& frame, ShownNode node, bool focused);

Sheet overviewSheet(ShownCluster cluster);
Sheet linkSheet(ShownCluster cluster);
// Returns the page of the cluster in its full length.
Canvas clusterLines(ShownCluster cluster, size_t columns, kj::StringPtr filter);

// The last minute of one quantity of a node, drawn as a sparkline.
constexpr size_t kNameWidth = 12;  // width of the name before it
size_t sparklineWidth(size_t columns);
struct History {
  kj::Vector<double> values;
  double most = 0;
  kj::String now;
};
enum class Quantity : uint8_t { kCpu, kMemory, kDisk, kNetwork };
History historyOf(ShownNode node, Quantity quantity);

}  // namespace talos::talosctl::dashboard
