// A receiver of logs on the host of a virtual machine: TCP, at a port of 127.0.0.1 that it keeps
// while it is stopped. It ends a connection without losing lines: it reads until the sender has
// ended it, too.
#pragma once

#include <arpa/inet.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>

namespace talos::vm {

class LineReceiver {
 public:
  LineReceiver() { start(); }
  ~LineReceiver() { stop(); }
  LineReceiver(const LineReceiver&) = delete;

  uint16_t port() const { return number; }
  std::string bytes() const {
    std::lock_guard locked(guard);
    return got;
  }

  void start() {
    int raw, on = 1;
    KJ_SYSCALL(raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    listener = kj::AutoCloseFd(raw);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(number);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    KJ_SYSCALL(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    KJ_SYSCALL(bind(listener, reinterpret_cast<sockaddr*>(&name), size));
    KJ_SYSCALL(listen(listener, 4));
    KJ_SYSCALL(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size));
    number = ntohs(name.sin_port);
    thread = std::jthread([this](std::stop_token over) { serve(over); });
  }
  void stop() {
    if (!thread.joinable()) return;
    thread.request_stop();
    thread.join();
  }

 private:
  static constexpr int kLook = 50, kFarewell = 10'000;  // ms
  mutable std::mutex guard;
  std::string got;
  uint16_t number = 0;
  kj::AutoCloseFd listener;
  std::jthread thread;

  static bool readable(int fd, int milliseconds) {
    struct pollfd poller = {fd, POLLIN, 0};
    return poll(&poller, 1, milliseconds) == 1;
  }
  // Reads from a connection; returns false at its end.
  bool take(int connection) {
    char buffer[16384];
    auto size = read(connection, buffer, sizeof(buffer));
    if (size <= 0) return false;
    std::lock_guard locked(guard);
    got.append(buffer, static_cast<size_t>(size));
    return true;
  }
  // Serves one sender after the other.
  void serve(const std::stop_token& over) {
    while (!over.stop_requested()) {
      if (!readable(listener, kLook)) continue;
      kj::AutoCloseFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (connection == nullptr) continue;
      bool open = true;
      while (open && !over.stop_requested()) {
        if (readable(connection, kLook)) open = take(connection);
      }
      listener = over.stop_requested() ? nullptr : kj::mv(listener);
      if (open) (void)shutdown(connection, SHUT_WR);
      while (open && readable(connection, kFarewell)) open = take(connection);
    }
    listener = nullptr;
  }
};

}  // namespace talos::vm
