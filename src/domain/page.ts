/** One page of a list, and how much there is in all. Pages count from 1. */
export interface Page<T> {
  items: T[];
  page: number;
  limit: number;
  total: number;
}
