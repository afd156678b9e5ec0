// pcap
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/client/received-bytes.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/views/bpf-filter.h"

namespace talos::talosctl {

namespace {

// The destination of a capture: stdout, or a new file that only its owner can read. The file is
// created when the first bytes arrive, so that a refused capture leaves no file.
class CaptureFile {
 public:
  CaptureFile(Invocation& call, kj::StringPtr path) : console(call.deps.console), path(path) {
    if (path != "-") {
      if (access(path.cStr(), F_OK) == 0) failExists();
      return;
    }
    if (console.outIsTerminal()) {
      failUsage(
          "a capture cannot be printed on a terminal; use --output FILE, or pipe it into \"tcpdump "
          "-r -\"");
    }
  }
  void write(kj::ArrayPtr<const kj::byte> bytes) {
    if (path == "-") return console.outBytes(bytes.asChars());
    if (file == nullptr) file = create();
    int fd = KJ_ASSERT_NONNULL(file).get();
    while (bytes.size() > 0) {
      auto written = ::write(fd, bytes.begin(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) failToWrite();
      bytes = bytes.slice(static_cast<size_t>(written), bytes.size());
    }
  }

 private:
  Console& console;
  kj::StringPtr path;
  kj::Maybe<kj::AutoCloseFd> file;

  kj::AutoCloseFd create() {
    int raw = open(path.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (raw < 0 && errno == EEXIST) failExists();
    if (raw < 0) failToWrite();
    return kj::AutoCloseFd(raw);
  }
  [[noreturn]] void failExists() {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, " already exists; use another name"));
  }
  [[noreturn]] void failToWrite() {
    fail(ErrorKind::kInvalidArgument, kj::str("cannot write ", path, ": ", strerror(errno)));
  }
};

// Converts to the unit of the call, rounded up: a short time must not become 0, which means without
// limit.
uint64_t durationMs(kj::Duration duration) {
  auto most = kj::MILLISECONDS - kj::NANOSECONDS;
  return static_cast<uint64_t>((duration + most) / kj::MILLISECONDS);
}

kj::Vector<BpfStep> filterOf(const Invocation& call) {
  auto text = call.text("bpf-filter");
  if (text.size() == 0) return withoutTcpPort(call.deps.apiPort);
  if (text.startsWith("@")) return parseBpfFilter(readFile(text.slice(1)));
  return parseBpfFilter(text);
}

kj::Promise<int> runCapture(Invocation& call) {
  auto snapLength = call.number("snaplen");
  if (snapLength < 1 || snapLength > rpc::MOST_SNAP_LENGTH) {
    failUsage(kj::str("invalid value \"", snapLength, "\" for flag --snaplen: use 1 to ",
                      rpc::MOST_SNAP_LENGTH));
  }
  auto filter = filterOf(call);
  auto session = co_await openSingle(call);
  CaptureFile file(call, call.text("output"));
  auto node = session->client.node(session->client.nodes()[0]);
  auto request = node.networkRequest().send().getNetwork().captureRequest();
  request.setLink(call.text("interface"));
  request.setPromiscuous(call.on("promiscuous"));
  request.setSnapLength(static_cast<uint32_t>(snapLength));
  request.setDurationMs(durationMs(call.duration("duration")));
  auto steps = request.initFilter(filter.size());
  for (auto i : kj::indices(filter)) {
    steps[i].setCode(filter[i].code), steps[i].setK(filter[i].k);
    steps[i].setJt(filter[i].jt), steps[i].setJf(filter[i].jf);
  }
  SinkFailure broken;
  ReceivedBytes received([&file, &broken](kj::ArrayPtr<const kj::byte> bytes) {
    broken.keeping([&]() { file.write(bytes); });
  });
  request.setSink(received.sink());
  Alive alive;
  uint64_t packets = 0, lost = 0;
  co_await broken.before(watched(*session, node, alive, request.send().then([&](auto&& counts) {
    packets = counts.getPackets(), lost = counts.getDropped();
  })));
  if (lost > 0) {
    call.err(kj::str(packets, " packets captured, ", lost, " lost because they came too fast\n"));
  } else {
    call.done = kj::str(packets, " packets captured");
  }
  co_return 0;
}

}  // namespace

void addCaptureCommands(Command& root) {
  auto& pcap = root.add("pcap", "Capture packets of a link of one node");
  pcap.details =
      "Captures until --duration has passed, which then says how many packets were lost, if any "
      "were, or until Ctrl-C. The pcap file goes to stdout or to --output, which "
      "must not exist yet; \"tcpdump -r\" and Wireshark read it. --bpf-filter takes the output of "
      "\"tcpdump -dd EXPRESSION\", or @FILE with it; without it everything is captured but the "
      "traffic of the API itself, TCP port 50000.";
  pcap.flag({.name = "interface",
             .letter = "i",
             .kind = FlagKind::kText,
             .fallback = "eth0",
             .help = "link to capture on"});
  pcap.flag({.name = "promiscuous", .help = "capture packets for other hosts as well"});
  pcap.flag({.name = "snaplen",
             .letter = "s",
             .kind = FlagKind::kNumber,
             .fallback = "4096",
             .help = "bytes to keep of each packet, 1 to 262144"});
  pcap.flag({.name = "duration",
             .kind = FlagKind::kDuration,
             .fallback = "0",
             .help = "how long to capture; 0: until Ctrl-C"});
  pcap.flag(
      {.name = "bpf-filter", .kind = FlagKind::kText, .help = "filter as tcpdump -dd prints it"});
  pcap.flag({.name = "output",
             .letter = "o",
             .kind = FlagKind::kText,
             .fallback = "-",
             .help = "file to write; - is stdout"});
  pcap.interrupt = Interrupt::kIsSuccess;
  pcap.run = runCapture;
}

}  // namespace talos::talosctl
