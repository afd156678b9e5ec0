// The page of one node: its head, and as many panes as fit
#include <algorithm>
#include <vector>

#include "common/health/service-state.h"
#include "common/text/plain-text.h"
#include "common/text/size.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/dashboard/pages.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr size_t kWide = 160, kPaneRows = 12;

Extent drawSheet(Area area, Sheet sheet, const Frame& frame, bool focused) {
  if (focused) sheet.keep(frame.view.filter);
  kj::Maybe<size_t> selected;
  if (focused && sheet.size() > 0) selected = selectedLine(frame.view, sheet.size(), false);
  sheet.draw(area, selected);
  return {.nodes = frame.shown.cluster.getNodes().size(),
          .lines = sheet.size(),
          .visible = area.rows() > 0 ? area.rows() - 1 : 0,
          .service = kj::str(sheet.textAt(selected.orDefault(0), 0))};
}

// Splits a line into pieces that fit: the first has `width` columns, those that follow are
// indented.
constexpr size_t kIndent = 2, kLeastWrapped = 20;
kj::Vector<kj::ArrayPtr<const char>> piecesOf(kj::StringPtr line, size_t width) {
  kj::Vector<kj::ArrayPtr<const char>> pieces;
  auto text = line.asArray();
  if (width < kLeastWrapped) {
    pieces.add(text);  // is cut
    return pieces;
  }
  size_t begin = 0, used = 0, room = width;
  for (size_t at = 0; at < text.size(); ++used) {
    if (used == room) {
      pieces.add(text.slice(begin, at));
      begin = at, used = 0, room = width - kIndent;
    }
    at += firstCharacter(text.slice(at, text.size()).asBytes()).bytes;
  }
  pieces.add(text.slice(begin, text.size()));
  return pieces;
}

// Draws the pieces of a line upward from the row above `row`. Returns the row of the topmost.
size_t drawUpward(Area area, kj::StringPtr line, size_t row) {
  auto pieces = piecesOf(line, area.columns());
  for (size_t i = pieces.size(); i > 0 && row > 0; --i) {
    area.put(--row, i > 1 ? kIndent : 0, kj::heapString(pieces[i - 1]));
  }
  return row;
}

// Draws a log: the selected line is the last on the screen, because a log is read from its end. A
// line that is too wide continues on further rows.
Extent drawLines(Area area, kj::ArrayPtr<const kj::String> lines, const Frame& frame,
                 bool focused) {
  kj::Vector<kj::StringPtr> kept;
  for (auto& line : lines) {
    if (!focused || containsIgnoringCase(line, frame.view.filter)) kept.add(line);
  }
  auto at = focused ? selectedLine(frame.view, kept.size(), true) : kept.size();
  auto end = kept.size() == 0 ? 0 : kj::min(kept.size(), at + 1);
  // At its beginning, a log fills the screen downward.
  size_t rows = 0;
  auto count = [&](size_t line) { rows += piecesOf(kept[line], area.columns()).size(); };
  for (size_t line = 0; line < end && rows < area.rows(); ++line) count(line);
  while (end < kept.size() && rows < area.rows()) count(end++);
  auto row = kj::min(rows, area.rows());
  size_t visible = 0;
  for (auto line = end; line > 0 && row > 0; --line, ++visible) {
    row = drawUpward(area, kept[line - 1], row);
  }
  if (lines.size() == 0) area.put(0, 0, "nothing yet", Look::kDim);
  return {.nodes = frame.shown.cluster.getNodes().size(),
          .lines = kept.size(),
          .visible = visible,
          .service = {}};
}

// Formats a share of one processor, where a whole percent is much.
kj::String fineShare(bool known, uint32_t tenths) {
  return known ? kj::str(tenths / 10, ".", tenths % 10, " %") : kj::str("-");
}

uint64_t memoryField(ShownNode node, kj::StringPtr name) {
  for (auto field : node.getMemory()) {
    if (field.getName() == name) return field.getValue() * 1024;
  }
  return 0;
}

void drawCores(Area area, ShownNode node) {
  constexpr size_t kCoreWidth = 24, kBar = 10;
  auto across = kj::max(area.columns() / kCoreWidth, size_t(1));
  size_t at = 0;
  for (auto core : node.getCores()) {
    auto column = at % across * kCoreWidth, row = at / across;
    auto share = core.getBusy() / 1000.0;
    area.put(row, column, core.getName(), Look::kDim, 6);
    if (core.getBusyKnown()) area.bar(row, column + 7, kBar, share, toneOfShare(share));
    area.put(row, column + 8 + kBar, core.getBusyKnown() ? percent(core.getBusy()) : kj::str("-"));
    ++at;
  }
}

size_t drawMemory(Area area, ShownNode node) {
  auto total = memoryField(node, "MemTotal");
  if (total == 0) return 0;
  auto available = memoryField(node, "MemAvailable");
  auto used = total - kj::min(total, available);
  area.put(0, 0, "memory", Look::kDim);
  area.bar(0, kNameWidth, 20, double(used) / double(total),
           toneOfShare(double(used) / double(total)));
  area.put(0, kNameWidth + 22, kj::str(decimalSize(used), " used of ", decimalSize(total)));
  // A node in a container knows only its limit and its usage.
  auto programs = memoryField(node, "AnonPages");
  if (programs == 0) return 1;
  area.put(1, kNameWidth,
           kj::str("programs ", decimalSize(programs), ", files ",
                   decimalSize(memoryField(node, "Cached") + memoryField(node, "Buffers")),
                   ", kernel ", decimalSize(memoryField(node, "Slab")), ", free ",
                   decimalSize(memoryField(node, "MemFree"))));
  return 2;
}

Extent drawUsage(Area area, const Frame& frame, ShownNode node) {
  size_t row = 0;
  auto history = [&](kj::StringPtr name, Quantity quantity) {
    auto it = historyOf(node, quantity);
    area.put(row, 0, name, Look::kDim);
    auto width = sparklineWidth(area.columns());
    area.sparkline(row, kNameWidth, width, it.values, it.most, Look::kAccent);
    area.put(row++, kNameWidth + 2 + width, it.now);
  };
  history("CPU", Quantity::kCpu);
  if (node.getSamples().size() > 0) {
    auto sample = node.getSamples()[node.getSamples().size() - 1];
    area.put(row++, kNameWidth,
             kj::str("kernel ", percent(sample.getCpuSystem()), ", waiting for disks ",
                     percent(sample.getCpuIowait()), ", stolen ", percent(sample.getCpuSteal()),
                     "; load ", node.getLoad()));
    area.put(row, 0, "pressure", Look::kDim);
    area.put(row++, kNameWidth,
             kj::str("CPU ", percent(unsigned(sample.getPressureCpu() * 10)), ", memory ",
                     percent(unsigned(sample.getPressureMemory() * 10)), ", disks ",
                     percent(unsigned(sample.getPressureIo() * 10)), " of the last 10 s"));
  }
  row += drawMemory(area.below(row), node);
  history("disks", Quantity::kDisk);
  history("network", Quantity::kNetwork);
  auto state = [&](kj::StringPtr name, SheetCell cell) {
    if (cell.text.size() == 0) return;
    area.put(row, 0, name, Look::kDim);
    area.put(row++, kNameWidth, cell.text, cell.look);
  };
  state("time", timeSyncOf(node));
  state("upgrade", upgradeOf(node));
  auto label = "problem"_kj;
  for (auto& problem : problemsOf(node)) {
    state(label, {kj::mv(problem), Look::kBad});
    label = "";
  }
  auto kubernetes = node.getNodeStatus();
  if (node.hasNodeStatus()) {
    state("Kubernetes",
          {kj::str(kubernetes.getReady() ? "Ready" : "not Ready",
                   kubernetes.getUnschedulable() ? ", cordoned" : "",
                   kubernetes.getMessage().size() > 0 ? ": " : "", kubernetes.getMessage()),
           kubernetes.getReady() ? Look::kGood : Look::kBad});
  }
  if (row < area.rows()) drawCores(area.below(row), node);
  return {.nodes = frame.shown.cluster.getNodes().size(), .lines = 0, .visible = 1, .service = {}};
}

Sheet serviceSheet(ShownNode node) {
  Sheet sheet({{"SERVICE"},
               {"STATE"},
               {"HEALTH"},
               {"PID", 3, 8, true},
               {"STARTS", 2, 6, true},
               {"MEMORY", 3, 10, true},
               {"MESSAGE", 0, 60}});
  for (auto service : node.getServices()) {
    auto running = service.getState() == rpc::ServiceState::RUNNING;
    auto text = isUp(service) ? kj::String() : statementOf(service).text;
    if (text.size() == 0 && service.getEvents().size() > 0) {
      auto events = service.getEvents();
      text = kj::str(events[events.size() - 1].getMessage());
    }
    auto memory = kj::String();
    for (auto group : node.getGroups()) {
      if (group.getPath() == kj::str("system/", service.getId()))
        memory = decimalSize(group.getMemory());
    }
    sheet.add(kj::str(service.getId()),
              SheetCell{kj::str(serviceStateName(service.getState())),
                        running ? Look::kPlain : Look::kWarning},
              serviceHealth(service),
              service.getPid() > 0 ? kj::str(service.getPid()) : kj::str("-"),
              kj::str(service.getStarts()), kj::mv(memory), kj::mv(text));
  }
  return sheet;
}

Sheet processSheet(ShownNode node, ProcessOrder order) {
  std::vector<rpc::DashboardNode::Process::Reader> all;
  for (auto process : node.getProcesses()) all.push_back(process);
  auto weight = [&](auto& process) {
    return order == ProcessOrder::kCpu ? uint64_t(process.getCpu()) : process.getMemory();
  };
  std::stable_sort(all.begin(), all.end(), [&](auto& a, auto& b) { return weight(a) > weight(b); });
  Sheet sheet({{"PID", 0, 8, true},
               {"CPU", 0, 7, true},
               {"MEMORY", 0, 9, true},
               {"THREADS", 2, 7, true},
               {"STATE", 3, 5},
               {"COMMAND", 0, 60}});
  for (auto& process : all) {
    sheet.add(kj::str(process.getPid()), fineShare(process.getCpuKnown(), process.getCpu()),
              decimalSize(process.getMemory()), kj::str(process.getThreads()),
              kj::str(process.getState()), kj::str(process.getCommand()));
  }
  return sheet;
}

Sheet fileSystemSheet(ShownNode node) {
  Sheet sheet({{"MOUNTED ON", 0, 44},
               {"FULL"},
               {"SIZE", 1, 9, true},
               {"FREE", 1, 9, true},
               {"TYPE", 2},
               {"DEVICE", 3, 40}});
  for (auto mount : node.getMounts()) {
    if (!isDiskFileSystem(mount)) continue;
    sheet.add(kj::str(mount.getMountedOn()), fillOf(mount), decimalSize(mount.getSize()),
              decimalSize(mount.getAvailable()), kj::str(mount.getType()),
              kj::str(mount.getFilesystem()));
  }
  return sheet;
}

Extent drawDisks(Area area, const Frame& frame, ShownNode node, bool focused) {
  Sheet disks({{"DISK"}, {"READ", 0, 12, true}, {"WRITTEN", 0, 12, true}, {"BUSY"}});
  for (auto disk : node.getDisks()) {
    auto share = disk.getBusy() / 1000.0;
    bool known = disk.getRatesKnown();
    disks.add(kj::str(disk.getName()), rate(known, disk.getReadRate()),
              rate(known, disk.getWrittenRate()),
              known ? SheetCell{percent(disk.getBusy()), toneOfShare(share), share}
                    : SheetCell{kj::str("-"), Look::kDim});
  }
  auto rows = kj::min(disks.size() + 1, area.rows() / 2);
  disks.draw(area.part(0, 0, rows, area.columns()), nullptr);
  return drawSheet(area.below(rows + 1), fileSystemSheet(node), frame, focused);
}

Sheet nodeLinkSheet(ShownNode node) {
  Sheet sheet({{"LINK", 0, 16},
               {"STATE"},
               {"KIND", 2},
               {"IN", 0, 12, true},
               {"OUT", 0, 12, true},
               {"ERRORS", 1, 10, true},
               {"DROPPED", 2, 10, true},
               {"ADDRESSES", 1, 60}});
  for (auto link : node.getLinks()) {
    sheet.add(kj::str(link.getName()),
              link.getUp() ? SheetCell{kj::str("up"), Look::kGood}
                           : SheetCell{kj::str("down"), Look::kDim},
              kj::str(link.getKind()), rate(link.getRatesKnown(), link.getReceivedRate()),
              rate(link.getRatesKnown(), link.getSentRate()), kj::str(link.getErrors()),
              kj::str(link.getDropped()), kj::strArray(link.getAddresses(), " "));
  }
  return sheet;
}

Sheet groupSheet(ShownNode node) {
  Sheet sheet(
      {{"CPU", 0, 7, true}, {"MEMORY", 0, 9, true}, {"PROCESSES", 1, 9, true}, {"GROUP", 0, 80}});
  for (auto group : node.getGroups()) {
    sheet.add(fineShare(group.getCpuKnown(), group.getCpu()), decimalSize(group.getMemory()),
              kj::str(group.getProcesses()), kj::str(group.getPath()));
  }
  return sheet;
}

Sheet containerSheet(ShownNode node) {
  Sheet sheet({{"CONTAINER", 0, 60}, {"STATE", 0, 24}, {"PID", 2, 8, true}, {"IMAGE", 1, 60}});
  for (auto container : node.getContainers()) {
    auto status = container.getStatus();
    bool runs = status == "SANDBOX_READY" || status == "CONTAINER_RUNNING" || status == "RUNNING";
    sheet.add(kj::str(container.getId()),
              SheetCell{kj::str(status), runs ? Look::kGood : Look::kWarning},
              kj::str(container.getPid()), kj::str(container.getImage()));
  }
  return sheet;
}

Sheet certificateSheet(ShownNode node, kj::StringPtr taken) {
  std::vector<rpc::DashboardNode::Certificate::Reader> all;
  for (auto one : node.getCertificates()) all.push_back(one);
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) {
    return kj::StringPtr(a.getSpec().getNotAfter()) < kj::StringPtr(b.getSpec().getNotAfter());
  });
  Sheet sheet({{"CERTIFICATE", 0, 40},
               {"ENDS"},
               {"VALID UNTIL", 1},
               {"CA", 2},
               {"SUBJECT", 2, 50},
               {"PROBLEM", 0, 60}});
  for (auto& one : all) {
    auto spec = one.getSpec();
    sheet.add(kj::str(one.getId()), untilText(taken, spec.getNotBefore(), spec.getNotAfter()),
              kj::str(spec.getNotAfter()), spec.getAuthority() ? "yes"_kj : ""_kj,
              kj::str(spec.getSubject()), SheetCell{kj::str(spec.getProblem()), Look::kBad});
  }
  return sheet;
}

kj::Array<kj::String> eventLines(ShownNode node) {
  return KJ_MAP(event, node.getEvents()) {
    auto time = rfc3339(event.getTime());
    return kj::str(time, "  ", event.getSource(), ": ", event.getMessage());
  };
}

void drawHead(Area area, const Frame& frame, ShownNode node) {
  auto end = area.put(0, 0, nameOf(node), Look::kTitle);
  end = area.put(0, end + 2, kj::strArray(node.getAddresses(), " "), Look::kPlain, 40);
  auto health = healthOf(node), stage = stageOf(node);
  end = area.put(0, end + 2, stage.text, stage.look);
  end = area.put(0, end + 2, health.text, health.look);
  auto nodes = frame.shown.cluster.getNodes().size();
  auto place = kj::str("  ", frame.view.node % nodes + 1, " of ", nodes, " ←→");
  auto room = area.columns() - kj::min(area.columns(), end + 2 + columnsOf(place));
  area.put(0, end + 2,
           kj::str(node.getVersion().getTag(), "  up ", uptimeOf(node), "  ",
                   node.getControlPlane() ? "control plane" : "worker"),
           Look::kDim, room);
  area.putRight(0, area.columns(), place, Look::kDim);
}

}  // namespace

Extent drawPane(Area area, Pane pane, const Frame& frame, ShownNode node, bool focused) {
  switch (pane) {
    case Pane::kUsage:
      return drawUsage(area, frame, node);
    case Pane::kServices:
      return drawSheet(area, serviceSheet(node), frame, focused);
    case Pane::kProcesses:
      return drawSheet(area, processSheet(node, frame.view.order), frame, focused);
    case Pane::kDisks:
      return drawDisks(area, frame, node, focused);
    case Pane::kLinks:
      return drawSheet(area, nodeLinkSheet(node), frame, focused);
    case Pane::kGroups:
      return drawSheet(area, groupSheet(node), frame, focused);
    case Pane::kContainers:
      return drawSheet(area, containerSheet(node), frame, focused);
    case Pane::kCertificates:
      return drawSheet(area, certificateSheet(node, frame.shown.cluster.getTaken()), frame,
                       focused);
    case Pane::kEvents:
      return drawLines(area, eventLines(node), frame, focused);
    case Pane::kLog:
      return drawLines(area, frame.shown.log, frame, focused);
    case Pane::kKernel:
      return drawLines(area, frame.shown.kernel, frame, focused);
  }
  KJ_UNREACHABLE;
}

Extent drawNodePage(Area area, const Frame& frame) {
  auto nodes = frame.shown.cluster.getNodes();
  if (nodes.size() == 0) return {};
  auto node = nodes[frame.view.node % nodes.size()];
  drawHead(area, frame, node);
  auto body = area.below(1);
  size_t across = body.columns() >= kWide ? 2 : 1;
  size_t down = std::clamp(body.rows() / kPaneRows, size_t(1), size_t(3));
  auto width = body.columns() / across, height = body.rows() / down;
  Extent extent;
  for (size_t at = 0; at < across * down; ++at) {
    auto pane = Pane((size_t(frame.view.pane) + at) % kPaneCount);
    bool last = at / across + 1 == down;
    auto rows = last ? body.rows() - at / across * height : height;
    auto column = at % across * width;
    auto part = body.part(at / across * height, column, rows, across > 1 ? width - 1 : width);
    auto title =
        pane == Pane::kLog ? kj::str("Log of ", frame.view.service) : kj::str(titleOf(pane));
    part.title(0, title, at == 0);
    auto drawn = drawPane(part.below(1), pane, frame, node, at == 0);
    if (at == 0) extent = kj::mv(drawn);
  }
  return extent;
}

}  // namespace talos::talosctl::dashboard
