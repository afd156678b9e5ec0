#include "machined/process1/init/init-console.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

namespace talos::process1 {

Line& Line::add(const char* bytes, size_t size) {
  size_t room = sizeof(buffer) - 1 - used;
  if (size > room) size = room;
  memcpy(buffer + used, bytes, size);
  used += size;
  buffer[used] = 0;
  return *this;
}

Line& Line::add(const char* text) {
  return add(text, strlen(text));
}

Line& Line::add(int64_t number) {
  char digits[24];
  char* p = digits + sizeof(digits);
  uint64_t rest = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  do {
    *--p = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (number < 0) *--p = '-';
  return add(p, static_cast<size_t>(digits + sizeof(digits) - p));
}

void Console::start(Line& line, int level) const {
  if (kernelLog) line.add("<").add(level).add(">");
  line.add(prefix);
}

void Console::finish(Line& line) const {
  line.add("\n");
  // A console that cannot be written to cannot be reported anywhere else.
  ssize_t written = ::write(fd, line.text(), line.size());
  (void)written;
}

const char* errorText(int error) {
  const char* text = strerrordesc_np(error);
  return text == nullptr ? "unknown error" : text;
}

void addStatus(Line& line, int status) {
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    line.add("signal ").add(WTERMSIG(status)).add(" (").add(name == nullptr ? "?" : name).add(")");
  } else {
    line.add("exit code ").add(WEXITSTATUS(status));
  }
}

Console openConsole(const char* prefix) {
  int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
  return fd >= 0 ? Console(fd, prefix) : Console(2, prefix, false);
}

}  // namespace talos::process1
