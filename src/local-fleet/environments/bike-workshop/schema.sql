CREATE TABLE staff (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('manager', 'front_desk', 'mechanic')),
  works_on_e_bikes INTEGER NOT NULL DEFAULT 0 CHECK (works_on_e_bikes IN (0, 1))
);

-- How long a mechanic works on a day.
CREATE TABLE shifts (
  staff_id INTEGER NOT NULL REFERENCES staff (id),
  work_date TEXT NOT NULL,
  minutes INTEGER NOT NULL CHECK (minutes > 0),
  PRIMARY KEY (staff_id, work_date)
);

CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL,
  phone TEXT NOT NULL,
  preferred_contact TEXT NOT NULL CHECK (preferred_contact IN ('email', 'sms')),
  note TEXT
);

CREATE TABLE bikes (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  brand TEXT NOT NULL,
  model TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('city', 'road', 'mountain', 'cargo', 'e-bike')),
  colour TEXT NOT NULL,
  frame_number TEXT NOT NULL UNIQUE
);

-- A service with a kind is only for bikes of that kind.
CREATE TABLE services (
  code TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  minutes INTEGER NOT NULL CHECK (minutes > 0),
  price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
  kind TEXT
);

-- A part with a kind only fits bikes of that kind.
CREATE TABLE parts (
  id INTEGER PRIMARY KEY,
  sku TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  category TEXT NOT NULL,
  brand TEXT NOT NULL,
  kind TEXT,
  price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
  stock INTEGER NOT NULL CHECK (stock >= 0),
  reorder_level INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  bike_id INTEGER NOT NULL REFERENCES bikes (id),
  mechanic_id INTEGER NOT NULL REFERENCES staff (id),
  work_date TEXT NOT NULL,
  status TEXT NOT NULL
    CHECK (status IN ('booked', 'in_progress', 'waiting', 'ready', 'collected', 'cancelled')),
  -- What the customer will pay at most without being asked.
  price_limit_cents INTEGER,
  note TEXT,
  created_on TEXT NOT NULL,
  created_by INTEGER NOT NULL REFERENCES staff (id)
);

-- Either a service or a part.
CREATE TABLE job_lines (
  id INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES jobs (id),
  service_code TEXT REFERENCES services (code),
  part_id INTEGER REFERENCES parts (id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  unit_price_cents INTEGER NOT NULL,
  CHECK ((service_code IS NULL) <> (part_id IS NULL))
);
CREATE INDEX job_lines_of_a_job ON job_lines (job_id);

CREATE INDEX jobs_of_a_day ON jobs (mechanic_id, work_date);

CREATE TABLE stock_orders (
  id INTEGER PRIMARY KEY,
  part_id INTEGER NOT NULL REFERENCES parts (id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  status TEXT NOT NULL CHECK (status IN ('open', 'received')),
  ordered_on TEXT NOT NULL,
  ordered_by INTEGER NOT NULL REFERENCES staff (id)
);

CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  job_id INTEGER REFERENCES jobs (id),
  channel TEXT NOT NULL CHECK (channel IN ('email', 'sms')),
  body TEXT NOT NULL,
  sent_on TEXT NOT NULL,
  sent_by INTEGER NOT NULL REFERENCES staff (id)
);

CREATE VIEW job_totals AS
SELECT
  j.id AS job_id,
  COALESCE((
    SELECT SUM(l.quantity * l.unit_price_cents) FROM job_lines l WHERE l.job_id = j.id
  ), 0) AS total_cents,
  COALESCE((
    SELECT SUM(l.quantity * s.minutes) FROM job_lines l JOIN services s ON s.code = l.service_code
    WHERE l.job_id = j.id
  ), 0) AS minutes
FROM jobs j;

-- What is left of each shift.
CREATE VIEW free_time AS
SELECT
  f.staff_id,
  f.work_date,
  f.minutes - COALESCE((
    SELECT SUM(t.minutes) FROM jobs j JOIN job_totals t ON t.job_id = j.id
    WHERE j.mechanic_id = f.staff_id AND j.work_date = f.work_date AND j.status <> 'cancelled'
  ), 0) AS minutes
FROM shifts f;
