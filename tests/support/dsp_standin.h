// Stands below a Hexagon kernel's source: what its entry point asks of the DSP's runtime, and a caller.

#include <string.h>

static void* memory_of_fd[256];

int HAP_power_set(void* handle, void* request) {
  (void)handle, (void)request;
  return 0;
}
void* HAP_mmap(void* address, int length, int protection, int flags, int fd, long offset) {
  (void)address, (void)length, (void)protection, (void)flags, (void)offset;
  return memory_of_fd[fd];
}
int HAP_munmap(void* address, int length) {
  (void)address, (void)length;
  return 0;
}
unsigned long long HAP_perf_get_time_us(void) { return 0; }

/// Calls the kernel on `count` buffers; each lies 16 bytes into what is mapped.
void run(void** buffers, int count) {
  int values[256] = {0}, offsets[256];
  unsigned long long time = 0;
  remote_arg arguments[259];
  memset(arguments, 0, sizeof arguments);
  arguments[0].buf.pv = values;
  arguments[1].buf.pv = offsets;
  arguments[2].buf.pv = &time;
  for (int i = 0; i < count; i++) {
    memory_of_fd[i] = (char*)buffers[i] - 16;
    offsets[i] = 16;
    arguments[i + 3].dma.fd = i;
  }
  entry(0, 2u << 24, arguments);
}
