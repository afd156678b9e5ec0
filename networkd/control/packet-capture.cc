#include "networkd/control/packet-capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <kj/debug.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "networkd/control/pcap-format.h"

namespace talos::networkd {
namespace {

constexpr int kSocketBuffer = 2 << 20;
constexpr uint32_t kSnapLength = 4096;
constexpr size_t kBatch = 64u << 10;    // ByteSink's limit
constexpr size_t kMostRecordHead = 16;  // the VLAN tag is in snapLength
constexpr int kCaptureOn = 1;
// Time after which a client that takes nothing loses its place to others.
constexpr auto kChunkTimeout = 60 * kj::SECONDS;

template <typename T>
void setOption(int fd, int level, int option, const T& value) {
  KJ_SYSCALL(setsockopt(fd, level, option, &value, sizeof(value)), level, option);
}

void attachFilter(int fd, kj::ArrayPtr<const sock_filter> steps) {
  sock_fprog program{static_cast<uint16_t>(steps.size()), const_cast<sock_filter*>(steps.begin())};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0) return;
  fail(ErrorKind::kInvalidArgument, kj::str("the kernel refuses the filter of ", steps.size(),
                                            " instructions: ", strerror(errno)));
}

struct CapturedLink {
  kj::String name;
  int index;
  uint32_t linkType;
};

CapturedLink linkNamed(kj::StringPtr name, int fd) {
  ifreq request{};
  if (name.size() == 0 || name.size() >= sizeof(request.ifr_name)) {
    fail(ErrorKind::kNotFound, kj::str("there is no link \"", name, "\""));
  }
  memcpy(request.ifr_name, name.begin(), name.size());
  if (ioctl(fd, SIOCGIFINDEX, &request) < 0) {
    fail(ErrorKind::kNotFound, kj::str("there is no link \"", name, "\""));
  }
  int index = request.ifr_ifindex;
  KJ_SYSCALL(ioctl(fd, SIOCGIFHWADDR, &request), name);
  auto hardware = request.ifr_hwaddr.sa_family;
  KJ_IF_MAYBE (type, pcapLinkType(hardware)) return {kj::str(name), index, *type};
  fail(ErrorKind::kUnimplemented, kj::str("cannot capture packets of ", name,
                                          ": pcap has no link type for hardware ", hardware));
}

// One capture, from start to end.
class Capture {
 public:
  Capture(kj::UnixEventPort& port, kj::Timer& timer, rpc::Network::CaptureParams::Reader wanted)
      : timer(timer),
        snapLength(wanted.getSnapLength() == 0 ? kSnapLength : wanted.getSnapLength()),
        sink(wanted.getSink()),
        fd(openSocket()),
        link(linkNamed(wanted.getLink(), fd)),
        observer(port, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ) {
    if (snapLength > rpc::MOST_SNAP_LENGTH) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("a snap length of ", snapLength, " bytes is too long; must be at most ",
                   rpc::MOST_SNAP_LENGTH));
    }
    buffer = kj::heapArray<kj::byte>(snapLength);
    listen(wanted);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Capture);

  // Sends until `end`, then the packets that the socket received by then. Rejects when the link
  // vanishes, or the sink fails or takes nothing for kChunkTimeout.
  kj::Promise<void> pump(kj::Promise<void> end) {
    bool over = false;
    auto ended = end.then([this, &over]() { deafen(), over = true; }).fork();
    kj::Vector<kj::byte> batch;
    addPcapHeader(batch, snapLength, link.linkType);
    for (;;) {
      auto ready = observer.whenBecomesReadable();  // before the read: the event is edge-triggered
      bool last = over;
      bool more = fill(batch);
      if (batch.size() > 0) {
        co_await send(batch);
        batch.clear();
      }
      if (more) continue;
      if (last) co_return;
      if (!over) co_await ready.exclusiveJoin(ended.addBranch());
    }
  }

  Captures::Counts counts() {
    tpacket_stats stats{};
    socklen_t size = sizeof(stats);
    getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    return {packets, stats.tp_drops};
  }

 private:
  kj::Timer& timer;
  uint32_t snapLength;
  rpc::ByteSink::Client sink;
  kj::AutoCloseFd fd;
  CapturedLink link;
  kj::UnixEventPort::FdObserver observer;
  kj::Array<kj::byte> buffer;
  uint64_t packets = 0;

  static kj::AutoCloseFd openSocket() {
    int fd;  // receives nothing until it is bound
    KJ_SYSCALL(fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return kj::AutoCloseFd(fd);
  }

  void listen(rpc::Network::CaptureParams::Reader wanted) {
    setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBuffer);
    setOption(fd, SOL_SOCKET, SO_TIMESTAMPNS, kCaptureOn);
    setOption(fd, SOL_PACKET, PACKET_AUXDATA, kCaptureOn);
    auto steps = KJ_MAP(step, wanted.getFilter()) {
      return sock_filter{step.getCode(), step.getJt(), step.getJf(), step.getK()};
    };
    if (steps.size() > BPF_MAXINSNS) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("a filter has at most ", BPF_MAXINSNS, " instructions, not ", steps.size()));
    }
    if (steps.size() > 0) attachFilter(fd, steps);
    if (wanted.getPromiscuous()) {
      packet_mreq mode{};
      mode.mr_ifindex = link.index;
      mode.mr_type = PACKET_MR_PROMISC;
      setOption(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, mode);
    }
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = link.index;
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), link.name);
  }

  // Stops receiving; keeps the packets in the buffer.
  void deafen() {
    const sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    attachFilter(fd, nothing);
  }

  // Adds whole packets until another might not fit the batch (returns true) or no packet waits
  // (false). A packet longer than a batch is sent alone.
  bool fill(kj::Vector<kj::byte>& batch) {
    while (batch.size() == 0 || batch.size() + kMostRecordHead + snapLength <= kBatch) {
      alignas(cmsghdr) char control[256];
      iovec part{buffer.begin(), buffer.size()};
      msghdr message{nullptr, 0, &part, 1, control, sizeof(control), 0};
      auto size = recvmsg(fd, &message, MSG_DONTWAIT);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      if (size < 0) {
        fail(ErrorKind::kUnavailable,
             kj::str("the capture of ", link.name, " ended: ", strerror(errno)));
      }
      CapturedPacket packet{{}, buffer.slice(0, static_cast<size_t>(size)), uint32_t(size)};
      readControl(message, packet);
      addPcapRecord(batch, packet, snapLength);
      ++packets;
    }
    return true;
  }

  static void readControl(msghdr& message, CapturedPacket& packet) {
    for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
        memcpy(&packet.time, CMSG_DATA(c), sizeof(packet.time));
      }
      if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
      tpacket_auxdata data;
      memcpy(&data, CMSG_DATA(c), sizeof(data));
      packet.length = data.tp_len;
      if ((data.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
      bool named = (data.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
      packet.tag = CapturedPacket::Tag{
          named ? data.tp_vlan_tpid : static_cast<uint16_t>(ETH_P_8021Q), data.tp_vlan_tci};
    }
  }

  kj::Promise<void> send(kj::ArrayPtr<const kj::byte> bytes) {
    while (bytes.size() > 0) {
      auto piece = bytes.slice(0, kj::min(bytes.size(), kBatch));
      bytes = bytes.slice(piece.size(), bytes.size());
      auto request = sink.writeRequest();
      request.setBytes(piece);
      co_await within(timer, kChunkTimeout, request.send(),
                      kj::str("the capture of ", link.name, " ended: its client took nothing for ",
                              kChunkTimeout / kj::SECONDS, " s"));
    }
  }
};

class KernelCaptures final : public Captures {
 public:
  KernelCaptures(kj::UnixEventPort& port, kj::Timer& timer) : port(port), timer(timer) {}

  kj::Promise<Counts> capture(rpc::Network::CaptureParams::Reader wanted) override {
    if (open >= kMostCaptures) {
      fail(ErrorKind::kResourceExhausted,
           kj::str("this node has ", kMostCaptures,
                   " captures of packets, which is the most; end one of them first"));
    }
    auto running = kj::heap<Capture>(port, timer, wanted);
    auto end = endOf(wanted.getDurationMs());
    ++open;
    KJ_DEFER(--open);
    co_await running->pump(kj::mv(end));
    co_return running->counts();
  }

 private:
  kj::UnixEventPort& port;
  kj::Timer& timer;
  unsigned open = 0;

  kj::Promise<void> endOf(uint64_t durationMs) {
    if (durationMs == 0) return kj::NEVER_DONE;
    return timer.afterDelay(kj::min(durationMs, uint64_t{1} << 40) * kj::MILLISECONDS);
  }
};

}  // namespace

kj::Own<Captures> openCaptures(kj::UnixEventPort& port, kj::Timer& timer) {
  return kj::heap<KernelCaptures>(port, timer);
}

}  // namespace talos::networkd
